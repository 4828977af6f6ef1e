package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One command: its arguments by name, and the way back for its events. */
final class Command {
    private final Map<String, Object> arguments;

    Command(Map<String, Object> arguments) {
        this.arguments = arguments;
    }

    /** A required text. */
    String text(String name) {
        Object value = arguments.get(name);
        if (value == null) {
            throw new IllegalArgumentException("argument " + name + " is missing");
        }
        return value.toString();
    }

    String text(String name, String otherwise) {
        return arguments.containsKey(name) ? text(name) : otherwise;
    }

    long number(String name, long otherwise) {
        return arguments.containsKey(name) ? Long.parseLong(text(name)) : otherwise;
    }

    int integer(String name, int otherwise) {
        return Math.toIntExact(number(name, otherwise));
    }

    boolean flag(String name) {
        return Boolean.TRUE.equals(arguments.get(name));
    }

    /** A list of texts; empty when absent. */
    List<String> texts(String name) {
        return texts(arguments.get(name));
    }

    /** A list of lists of texts; empty when absent. */
    List<List<String>> rows(String name) {
        List<List<String>> rows = new ArrayList<>();
        if (arguments.get(name) instanceof List) {
            for (Object row : (List<?>) arguments.get(name)) {
                rows.add(texts(row));
            }
        }
        return rows;
    }

    /** A table of texts; empty when absent. */
    Map<String, String> table(String name) {
        Map<String, String> table = new LinkedHashMap<>();
        if (arguments.get(name) instanceof Map) {
            ((Map<?, ?>) arguments.get(name)).forEach((key, value) -> table.put(key.toString(), value.toString()));
        }
        return table;
    }

    /** Prints one event of this command. */
    void event(String kind, Map<String, Object> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", arguments.get("id"));
        line.put("event", kind);
        line.putAll(fields);
        Main.print(line);
    }

    private static List<String> texts(Object value) {
        List<String> texts = new ArrayList<>();
        if (value instanceof List) {
            ((List<?>) value).forEach(each -> texts.add(each.toString()));
        }
        return texts;
    }
}
