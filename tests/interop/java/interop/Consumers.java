package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push and lite pull consumers. */
final class Consumers {
    private static final Map<String, DefaultMQPushConsumer> RUNNING = new ConcurrentHashMap<>();
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private Consumers() {
    }

    /** The default allocation, which also tells what it gave to this member. */
    private static final class Told implements AllocateMessageQueueStrategy {
        private final AllocateMessageQueueStrategy averagely = new AllocateMessageQueueAveragely();
        private final Command command;

        private Told(Command command) {
            this.command = command;
        }

        @Override
        public List<MessageQueue> allocate(String group, String id, List<MessageQueue> all, List<String> members) {
            List<MessageQueue> own = averagely.allocate(group, id, all, members);
            List<Integer> queues = new ArrayList<>();
            own.forEach(queue -> queues.add(queue.getQueueId()));
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("consumer", command.text("name"));
            fields.put("topic", all.get(0).getTopic());
            fields.put("queues", queues);
            fields.put("members", members.size());
            command.event("allocated", fields);
            return own;
        }

        @Override
        public String getName() {
            return averagely.getName();
        }
    }

    private static boolean failing(Command command, MessageExt message) {
        int times = command.integer("failTimes", 0);
        return times < 0 || message.getReconsumeTimes() < times;
    }

    private static boolean accept(Command command, MessageExt message, DefaultMQProducer replier) {
        boolean failing = failing(command, message);
        Map<String, Object> fields = Messages.describe(message);
        fields.put("consumer", command.text("name"));
        fields.put("failed", failing);
        fields.put("thread", Thread.currentThread().getName());
        command.event("message", fields);
        if (replier != null && message.getProperty(MessageConst.PROPERTY_CORRELATION_ID) != null) {
            String text = "re: " + new String(message.getBody(), StandardCharsets.UTF_8);
            try {
                replier.send(MessageUtil.createReplyMessage(message, text.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
        return !failing;
    }

    /**
     * Starts a push consumer; its messages and allocations are events from then on. "topics" maps a topic to its tags,
     * or to SQL with the flag "sql". "failTimes" is how often each message is refused, -1 for ever.
     */
    static Map<String, Object> push(Command command) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(command.text("group"), Access.hook(),
            new AllocateMessageQueueAveragely(), command.flag("trace"), null);
        consumer.setNamesrvAddr(command.text("namesrv"));
        consumer.setInstanceName("push" + INSTANCES.incrementAndGet() + "-" + ProcessHandle.current().pid());
        consumer.setVipChannelEnabled(false);
        // a 5.3 client drops the heartbeat it owes after a rebalance when another one is on its way; until the next, up to
        // 30 s later by default, its pulls are refused as not the latest subscription
        consumer.setHeartbeatBrokerInterval(2000);
        // what was taken before a shutdown is stored as taken, so that nothing comes twice
        consumer.setAwaitTerminationMillisWhenShutdown(60000);
        consumer.setConsumeThreadMin(command.integer("threads", 4));
        consumer.setConsumeThreadMax(command.integer("threads", 4));
        consumer.setConsumeFromWhere(command.text("from", "first").equals("first")
            ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.setMaxReconsumeTimes(command.integer("maxReconsumeTimes", -1));
        if (command.flag("broadcast")) {
            // the enum lives in another package in either generation; only its name is the same
            consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), "BROADCASTING"));
        }
        consumer.setAllocateMessageQueueStrategy(new Told(command));
        for (Map.Entry<String, String> each : command.table("topics").entrySet()) {
            if (command.flag("sql")) {
                consumer.subscribe(each.getKey(), MessageSelector.bySql(each.getValue()));
            } else {
                consumer.subscribe(each.getKey(), each.getValue());
            }
        }
        DefaultMQProducer replier = command.flag("reply") ? Producers.replier(command) : null;
        if (command.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                accept(command, messages.get(0), replier)
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(command.integer("delayLevel", 0));
                return accept(command, messages.get(0), replier)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        RUNNING.put(command.text("name"), consumer);
        return Map.of();
    }

    /**
     * Waits until the named push consumer holds exactly "queues" of "topic", which with "orderly" it has locked, too. What
     * it was given last is not held at once: until then it may go on with queues that are to be another's.
     */
    static Map<String, Object> held(Command command) {
        DefaultMQPushConsumer consumer = RUNNING.get(command.text("name"));
        Set<String> wanted = new HashSet<>(command.texts("queues"));
        Set<String> held = new HashSet<>();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(command.number("waitMs", 90000));
        while (System.nanoTime() < end) {
            held.clear();
            consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().forEach((queue, taken) -> {
                if (queue.getTopic().equals(command.text("topic"))
                        && (taken.isLocked() || !command.flag("orderly"))) {
                    held.add("" + queue.getQueueId());
                }
            });
            if (held.equals(wanted)) {
                return Map.of();
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
        throw new IllegalStateException("it holds " + held + " and not " + wanted);
    }

    /** Shuts the named push consumer down: its queues are released and its offsets stored. */
    static Map<String, Object> stop(Command command) {
        RUNNING.remove(command.text("name")).shutdown();
        return Map.of();
    }

    /**
     * Runs a lite pull consumer until it has "expect" messages or "waitMs" are over, commits and shuts it down. "mode"
     * is subscribe, or assign: every queue, from the offset that "seek" gives (queue id to offset) or from its start.
     * Pulling begins with assign, so a message from before the offset sought may slip through, and one from after it
     * may come twice (once before the seek, once more after it): the first does not count, the second counts once.
     */
    static Map<String, Object> lite(Command command) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(command.text("group"), Access.hook());
        consumer.setNamesrvAddr(command.text("namesrv"));
        consumer.setInstanceName("lite" + INSTANCES.incrementAndGet() + "-" + ProcessHandle.current().pid());
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setEnableMsgTrace(command.flag("trace"));
        boolean assign = command.text("mode", "subscribe").equals("assign");
        if (!assign) {
            consumer.subscribe(command.text("topic"), command.text("tags", "*"));
        }
        consumer.start();
        try {
            Map<String, String> seek = command.table("seek");
            if (assign) {
                Collection<MessageQueue> queues = consumer.fetchMessageQueues(command.text("topic"));
                consumer.assign(queues);
                for (MessageQueue queue : queues) {
                    consumer.seek(queue, sought(seek, queue.getQueueId()));
                }
            }
            Set<String> received = new HashSet<>();
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(command.number("waitMs", 60000));
            while (received.size() < command.integer("expect", 1) && System.nanoTime() < end) {
                for (MessageExt message : consumer.poll(500)) {
                    command.event("message", Messages.describe(message));
                    if (message.getQueueOffset() >= sought(seek, message.getQueueId())) {
                        received.add(message.getQueueId() + "@" + message.getQueueOffset());
                    }
                }
            }
            if (!assign) {
                consumer.commitSync();
            }
            return Map.of("received", received.size());
        } finally {
            consumer.shutdown();
        }
    }

    private static long sought(Map<String, String> seek, int queueId) {
        return Long.parseLong(seek.getOrDefault("" + queueId, "0"));
    }
}
