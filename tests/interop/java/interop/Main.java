package interop;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Drives the official client: reads commands from standard input, one JSON object a line, runs each in a thread of
 * its own, and writes what happens to standard output as JSON lines that carry the id of their command. The last
 * line of a command has the event "done" or "failed"; a consumer's messages may follow it. At the end of input
 * it gives its commands 10 s to end, and ends.
 */
public final class Main {
    private static PrintStream out;

    private Main() {
    }

    static synchronized void print(Map<String, Object> line) {
        out.println(RemotingSerializable.toJson(line, false));
        out.flush();
    }

    private static Map<String, Object> run(Command command) throws Exception {
        switch (command.text("do")) {
            case "send":
                return Producers.send(command);
            case "recall":
                return Producers.recall(command);
            case "batch":
                return Producers.batch(command);
            case "load":
                return Producers.load(command);
            case "load.stop":
                return Producers.stopLoad(command);
            case "transaction":
                return Producers.transaction(command);
            case "request":
                return Producers.request(command);
            case "push":
                return Consumers.push(command);
            case "push.held":
                return Consumers.held(command);
            case "push.stop":
                return Consumers.stop(command);
            case "lite":
                return Consumers.lite(command);
            case "read":
                return Readers.read(command);
            case "await":
                return Readers.await(command);
            case "view":
                return Readers.view(command);
            case "search":
                return Searches.search(command);
            case "allocate":
                return Strategies.allocate(command);
            case "offsets":
                return Readers.offsets(command);
            case "topic":
                return Administration.topic(command);
            case "ask":
                return Administration.ask(command);
            case "mqadmin":
                return Administration.mqadmin(command);
            case "forget":
                Readers.forget(command.text("namesrv"));
                Producers.forget(command.text("namesrv"));
                return Map.of();
            default:
                throw new IllegalArgumentException("unknown command " + command.text("do"));
        }
    }

    private static void answer(Command command) {
        try {
            command.event("done", run(command));
        } catch (Throwable error) {
            Map<String, Object> fields = new HashMap<>();
            StringBuilder text = new StringBuilder(error.toString());
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                text.append("; caused by ").append(cause);
            }
            fields.put("error", text.toString());
            command.event("failed", fields);
            error.printStackTrace();
        }
    }

    /** Reads commands until the end of input. */
    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, "UTF-8");
        // the client library and mqadmin print to System.out; nothing of theirs may fall between our lines
        System.setOut(System.err);
        Administration.guardExit();
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.trim().isEmpty()) {
                continue;
            }
            Command command = new Command(RemotingSerializable.fromJson(line, HashMap.class));
            threads.execute(() -> answer(command));
        }
        threads.shutdown();
        threads.awaitTermination(10, TimeUnit.SECONDS);
        Administration.leave();
    }
}
