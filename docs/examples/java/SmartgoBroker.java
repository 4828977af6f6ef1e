import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A registry and a broker of smartgo for the tests of a Java program, as a process that ends with them.
 *
 * <p>Needs a Python with smartgo; the system property {@code smartgo.python} names it, by default {@code python3}.
 */
public final class SmartgoBroker implements AutoCloseable {
    private static final Pattern TEXT = Pattern.compile("\"(\\w+)\":\"((?:[^\"\\\\]|\\\\.)*)\"");

    private final List<String> command = new ArrayList<>();
    private Process process;
    private Writer calls;
    private BufferedReader answers;
    private String namesrvAddr;

    public SmartgoBroker() {
        command.addAll(List.of(System.getProperty("smartgo.python", "python3"), "-m", "smartgo.testing"));
    }

    /** Sets a setting of the broker, before the start. */
    public SmartgoBroker withSetting(String name, String value) {
        command.addAll(List.of("--set", name + "=" + value));
        return this;
    }

    /** Starts the process; returns when clients can connect. */
    public SmartgoBroker start() throws IOException {
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        calls = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        namesrvAddr = field(read(), "registry");
        return this;
    }

    /** The address for {@code setNamesrvAddr} of producers and consumers. */
    public String getNamesrvAddr() {
        return namesrvAddr;
    }

    public void createTopic(String name, int queues) throws IOException {
        call("create_topic", "{\"name\":\"" + name + "\",\"queues\":" + queues + "}");
    }

    /** Moves the broker's clock: messages that are due then are delivered when this returns. */
    public void advance(double seconds) throws IOException {
        call("advance", "{\"seconds\":" + seconds + "}");
    }

    /** Refuses requests with a response code: {@code refuse("send", 14, 1)}. */
    public void refuse(String kind, int code, int count) throws IOException {
        String rule = "{\"action\":\"refuse\",\"kind\":\"" + kind + "\",\"code\":" + code + ",\"count\":" + count + "}";
        call("add_fault", rule);
    }

    /** Waits until a topic has so many messages; returns the answer, whose field result has their bodies. */
    public String bodies(String topic, int atLeast) throws IOException {
        return call("bodies", "{\"topic\":\"" + topic + "\",\"at_least\":" + atLeast + "}");
    }

    /** Asks for any call of docs/testing; the arguments are a JSON object. */
    public synchronized String call(String name, String arguments) throws IOException {
        calls.write("{\"id\":1,\"do\":\"" + name + "\",\"arguments\":" + arguments + "}\n");
        calls.flush();
        String answer = read();
        String error = field(answer, "error");
        if (error != null) {
            throw new IOException(error);
        }
        return answer;
    }

    /** Ends the process, which removes its store. */
    public void stop() throws IOException {
        calls.close(); // the process ends with its standard input, also when this JVM is killed
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() throws IOException {
        stop();
    }

    private String read() throws IOException {
        String line = answers.readLine();
        if (line == null) {
            throw new IOException("the broker has ended; its standard error says why");
        }
        return line;
    }

    private static String field(String json, String name) {
        Matcher found = TEXT.matcher(json);
        while (found.find()) {
            if (found.group(1).equals(name)) {
                return found.group(2);
            }
        }
        return null;
    }
}
