package interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin within this JVM, and the few administrative calls that tests need for themselves. */
@SuppressWarnings("removal")
final class Administration {
    /** For an answer; by default it is 5 s, of which a cold JVM on a busy machine uses up most before it asks. */
    static final long TIMEOUT_MS = 60_000;
    private static volatile boolean leaving;

    private Administration() {
    }

    /** Ends this JVM at once. */
    static void leave() {
        leaving = true;
        Runtime.getRuntime().halt(0);
    }

    /** Lets no mqadmin command end the JVM, where the JDK still has a way to say so. */
    static void guardExit() {
        try {
            System.setSecurityManager(new SecurityManager() {
                @Override
                public void checkExit(int status) {
                    if (!leaving) {
                        throw new SecurityException("exit " + status);
                    }
                }

                @Override
                public void checkPermission(java.security.Permission permission) {
                }
            });
        } catch (UnsupportedOperationException newer) {
            System.err.println("no security manager: a usage error of mqadmin ends this JVM");
        }
    }

    /** Creates "topic" with "queues" queues on the broker at "address"; returns when the registry tells its route. */
    static Map<String, Object> topic(Command command) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Access.hook(), TIMEOUT_MS);
        admin.setNamesrvAddr(command.text("namesrv"));
        admin.setInstanceName("topic" + System.nanoTime() + "-" + ProcessHandle.current().pid());
        admin.setVipChannelEnabled(false);
        admin.start();
        try {
            String topic = command.text("topic");
            int queues = command.integer("queues", 4);
            TopicConfig config = new TopicConfig(topic, queues, queues, 6);
            config.setOrder(command.flag("order"));
            admin.createAndUpdateTopicConfig(command.text("address"), config);
            long begin = System.nanoTime();
            while (System.nanoTime() - begin < TimeUnit.MILLISECONDS.toNanos(TIMEOUT_MS)) {
                try {
                    var route = admin.examineTopicRouteInfo(topic);
                    if (route.getQueueDatas().stream().anyMatch(each -> each.getReadQueueNums() == queues)) {
                        return Map.of("routeMs", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin));
                    }
                } catch (Exception unknown) {  // not registered yet
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
                }
            }
            throw new IllegalStateException("the registry has no route of " + topic + " after " + TIMEOUT_MS + " ms");
        } finally {
            admin.shutdown();
        }
    }

    /** Asks what no mqadmin command does; the answer is an event, as the client library read it. */
    static Map<String, Object> ask(Command command) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Access.hook(), TIMEOUT_MS);
        admin.setNamesrvAddr(command.text("namesrv"));
        admin.setInstanceName("ask" + System.nanoTime() + "-" + ProcessHandle.current().pid());
        admin.setVipChannelEnabled(false);
        admin.start();
        try {
            String topic = command.text("topic", "");
            String group = command.text("group", "");
            switch (command.text("what")) {
                case "status":
                    Map<String, Map<String, Long>> members = new LinkedHashMap<>();
                    admin.getConsumeStatus(topic, group, "").forEach((client, offsets) -> {
                        Map<String, Long> queues = new TreeMap<>();
                        offsets.forEach((queue, offset) -> queues.put(String.valueOf(queue.getQueueId()), offset));
                        members.put(client, queues);
                    });
                    return Map.of("answer", members);
                case "resumeCheck":
                    return Map.of("answer", admin.resumeCheckHalfMessage(topic, command.text("message")));
                case "timeSpan":
                    return Map.of("answer", admin.queryConsumeTimeSpan(topic, group));
                case "protocol":
                    return Map.of("answer", protocol(admin, command, topic, group));
                case "statistics":
                    return Map.of("answer", admin.viewBrokerStatsData(command.text("address"), command.text("name"),
                        command.text("key")));
                default:
                    throw new IllegalArgumentException("nothing is known of " + command.text("what"));
            }
        } finally {
            admin.shutdown();
        }
    }

    /** Calls of the library that no command of mqadmin makes, or only one of a newer version. */
    private static Map<String, Object> protocol(DefaultMQAdminExt admin, Command command, String topic, String group)
            throws Exception {
        String address = command.text("address");
        var calls = MQClientManager.getInstance().getOrCreateMQClientInstance(admin).getMQClientAPIImpl();
        MessageQueue queue = new MessageQueue(topic, "broker-a", 0);
        Map<String, Long> correction = new TreeMap<>();
        calls.queryCorrectionOffset(address, topic, group, Set.of(), TIMEOUT_MS)
            .forEach((id, offset) -> correction.put(String.valueOf(id), offset));
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("correction", correction);
        told.put("topics", admin.fetchTopicsByCLuster("DefaultCluster").getTopicList());
        told.put("system", calls.getSystemTopicList(TIMEOUT_MS).getTopicList());
        told.put("values", admin.getKVListByNamespace("ns").getTable());
        told.put("retries", admin.examineSubscriptionGroupConfig(address, group).getRetryMaxTimes());
        told.put("bounds", List.of(admin.minOffset(queue), admin.maxOffset(queue), admin.searchOffset(queue, 0)));
        told.put("earliest", admin.earliestMsgStoreTime(queue));
        admin.updateConsumeOffset(address, group, queue, 2);
        calls.cloneGroupOffset(address, group, command.text("copy"), topic, true, TIMEOUT_MS);
        for (var method : calls.getClass().getMethods()) {
            if (method.getName().equals("getSubscriptionGroupConfig")) {  // of 5.3 alone, by 352
                told.put("group", method.invoke(calls, address, group, TIMEOUT_MS));
            }
        }
        return told;
    }

    /** Runs each of "commands" in turn; what it printed is an event, and the errors among that once more. */
    static synchronized Map<String, Object> mqadmin(Command command) throws Exception {
        PrintStream before = System.out;
        PrintStream errorsBefore = System.err;
        for (List<String> arguments : command.rows("commands")) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setOut(new PrintStream(text, true, "UTF-8"));
            System.setErr(new PrintStream(errors, true, "UTF-8"));
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("command", String.join(" ", arguments));
            try {
                MQAdminStartup.main0(arguments.toArray(new String[0]), null);
            } catch (SecurityException exit) {
                fields.put("error", exit.toString());
            } finally {
                System.out.flush();
                System.err.flush();
                System.setOut(before);
                System.setErr(errorsBefore);
            }
            System.err.print(errors.toString("UTF-8"));
            fields.put("text", text.toString("UTF-8"));
            fields.put("errors", errors.toString("UTF-8"));
            command.event("output", fields);
        }
        return Map.of();
    }
}
