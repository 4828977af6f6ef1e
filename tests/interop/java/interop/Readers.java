package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Whole queues, single messages and stored offsets, by the pull consumer. */
@SuppressWarnings("deprecation")
final class Readers {
    private static final Map<String, DefaultMQPullConsumer> STARTED = new ConcurrentHashMap<>();
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private Readers() {
    }

    private static DefaultMQPullConsumer start(String group, String namesrv) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, Access.hook());
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("reader" + INSTANCES.incrementAndGet() + "-" + ProcessHandle.current().pid());
        consumer.setVipChannelEnabled(false);
        consumer.start();
        // bounds and single messages, for which the client waits 6 s by default
        consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().getMQAdminImpl()
            .setTimeoutMillis(Administration.TIMEOUT_MS);
        return consumer;
    }

    private static DefaultMQPullConsumer consumer(Command command) throws Exception {
        String namesrv = command.text("namesrv");
        synchronized (STARTED) {
            DefaultMQPullConsumer consumer = STARTED.get(namesrv);
            if (consumer == null) {
                consumer = start("interop-reader", namesrv);
                STARTED.put(namesrv, consumer);
            }
            return consumer;
        }
    }

    /** Shuts the consumer of one registry down. */
    static void forget(String namesrv) {
        DefaultMQPullConsumer consumer = STARTED.remove(namesrv);
        if (consumer != null) {
            consumer.shutdown();
        }
    }

    /**
     * Reads every message of every queue of "topics", from the first offset to the end found at the start. A topic
     * without a route is an event, and so is a queue where the broker's answers lead no further.
     */
    static Map<String, Object> read(Command command) throws Exception {
        DefaultMQPullConsumer consumer = consumer(command);
        Map<String, Object> bounds = new TreeMap<>();
        long count = 0;
        for (String topic : command.texts("topics")) {
            Map<String, Object> queues = new TreeMap<>();
            Set<MessageQueue> routed;
            try {
                routed = new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic));
            } catch (MQClientException error) {
                command.event("unrouted", Map.of("readTopic", topic, "error", error.toString()));
                continue;
            }
            for (MessageQueue queue : routed) {
                long begin = consumer.minOffset(queue);
                long end = consumer.maxOffset(queue);
                queues.put("" + queue.getQueueId(), List.of(begin, end));
                for (long at = begin; at < end; ) {
                    PullResult result = consumer.pull(queue, "*", at, 32);
                    if (result.getPullStatus() == PullStatus.FOUND) {
                        for (MessageExt message : result.getMsgFoundList()) {
                            Map<String, Object> fields = Messages.describe(message);
                            fields.put("readTopic", topic);
                            command.event("message", fields);
                            count++;
                        }
                    }
                    if (result.getNextBeginOffset() <= at) {
                        Map<String, Object> fields = new LinkedHashMap<>();
                        fields.put("readTopic", topic);
                        fields.put("queueId", queue.getQueueId());
                        fields.put("offset", at);
                        fields.put("status", result.getPullStatus().name());
                        command.event("stuck", fields);
                        break;
                    }
                    at = result.getNextBeginOffset();
                }
            }
            bounds.put(topic, queues);
        }
        return Map.of("messages", count, "bounds", bounds);
    }

    /** Holds a pull open until a message is at "offset" of "queue", for at most "waitMs". */
    static Map<String, Object> await(Command command) throws Exception {
        DefaultMQPullConsumer consumer = consumer(command);
        MessageQueue queue = new MessageQueue(
            command.text("topic"), command.text("broker", "broker-a"), command.integer("queueId", 0));
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(command.number("waitMs", 90000));
        Exception last = null;
        while (System.nanoTime() < end) {
            try {
                PullResult result = consumer.pullBlockIfNotFound(queue, "*", command.number("offset", 0), 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    List<Map<String, Object>> messages = new ArrayList<>();
                    result.getMsgFoundList().forEach(each -> messages.add(Messages.describe(each)));
                    return Map.of("messages", messages);
                }
            } catch (Exception error) {  // no route yet, or no broker
                last = error;
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
            }
        }
        throw new IllegalStateException("no message at " + queue + " offset " + command.number("offset", 0), last);
    }

    /** Asks for one message by the id that is made of store address and offset. */
    static Map<String, Object> view(Command command) throws Exception {
        return Messages.describe(consumer(command).viewMessage(command.text("topic"), command.text("offsetMsgId")));
    }

    /** The offsets that the broker keeps for "group" on every queue of "topic"; a queue without one is left out. */
    static Map<String, Object> offsets(Command command) throws Exception {
        // it counts as a member of the group, so it must not outlive the question
        DefaultMQPullConsumer consumer = start(command.text("group"), command.text("namesrv"));
        try {
            Map<String, Object> offsets = new TreeMap<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(command.text("topic"))) {
                long offset = consumer.fetchConsumeOffset(queue, true);
                if (offset >= 0) {
                    offsets.put("" + queue.getQueueId(), offset);
                }
            }
            return Map.of("offsets", offsets);
        } finally {
            consumer.shutdown();
        }
    }
}
