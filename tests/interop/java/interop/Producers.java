package interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Everything that sends. */
final class Producers {
    private static final Map<String, DefaultMQProducer> STARTED = new ConcurrentHashMap<>();
    private static final Map<String, AtomicBoolean> LOADS = new ConcurrentHashMap<>();
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private Producers() {
    }

    private static <P extends DefaultMQProducer> P prepare(P producer, Command command) throws Exception {
        producer.setNamesrvAddr(command.text("namesrv"));
        // replies and callbacks find a producer by its client id: it must differ from those of the other JVMs
        producer.setInstanceName("producer" + INSTANCES.incrementAndGet() + "-" + ProcessHandle.current().pid());
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(command.integer("timeoutMs", 30000));
        producer.setRetryTimesWhenSendFailed(command.integer("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed(command.integer("retries", 2));
        String type = command.text("compressType", "");
        if (!type.isEmpty()) {  // 5.x only
            Method set = null;
            for (Method each : producer.getClass().getMethods()) {
                if (each.getName().equals("setCompressType")) {
                    set = each;
                }
            }
            if (set == null) {
                throw new IllegalArgumentException("this client has no choice of compression");
            }
            set.invoke(producer, set.getParameterTypes()[0].getMethod("of", String.class).invoke(null, type));
        }
        return producer;
    }

    /** The producer of one group and setting, started on first use and kept. */
    private static DefaultMQProducer producer(Command command) throws Exception {
        String group = command.text("group", "interop-producer");
        String key = String.join("|", command.text("namesrv"), group, command.text("timeoutMs", ""),
            command.text("retries", ""), command.text("compressType", ""), String.valueOf(command.flag("trace")));
        synchronized (STARTED) {
            DefaultMQProducer producer = STARTED.get(key);
            if (producer == null) {
                producer = prepare(
                    command.flag("trace") ? new DefaultMQProducer(group, Access.hook(), true, null)
                        : new DefaultMQProducer(group, Access.hook()), command);
                producer.start();
                STARTED.put(key, producer);
            }
            return producer;
        }
    }

    /** Shuts the producers of one registry down. */
    static void forget(String namesrv) {
        STARTED.entrySet().removeIf(each -> {
            boolean own = each.getValue().getNamesrvAddr().equals(namesrv);
            if (own) {
                each.getValue().shutdown();
            }
            return own;
        });
    }

    private static Message message(Command command, long number) {
        String topic = command.text("topic");
        byte[] body = Messages.body(command.text("label", topic), number, command.integer("size", 0),
            command.flag("compressible"), command.number("seed", 1));
        Message message = new Message(topic, body);
        List<String> tags = command.texts("tags");
        if (!tags.isEmpty()) {
            message.setTags(tags.get((int) (number % tags.size())));
        }
        String keys = command.text("keys", "");
        if (!keys.isEmpty()) {
            message.setKeys(keys + number);
        }
        message.setFlag(command.integer("flag", 0));
        command.table("properties").forEach(message::putUserProperty);
        if (command.number("delayLevel", 0) > 0) {
            message.setDelayTimeLevel(command.integer("delayLevel", 0));
        }
        String timed = command.text("timed", "");
        if (!timed.isEmpty()) {  // 5.x only: setDelayTimeSec, setDelayTimeMs or setDeliverTimeMs
            try {
                Message.class.getMethod(timed, long.class).invoke(message, command.number("time", 0));
            } catch (ReflectiveOperationException error) {
                throw new IllegalArgumentException("this client has no " + timed, error);
            }
        }
        return message;
    }

    /** Recalls a timed message by the handle of its send; 5.x only. */
    static Map<String, Object> recall(Command command) throws Exception {
        DefaultMQProducer producer = producer(command);
        Method recall = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class);
        try {
            return Map.of("msgId", recall.invoke(producer, command.text("topic"), command.text("handle")));
        } catch (InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }

    /** The handle by which a timed message can be recalled; empty for any other, and with a 4.x client. */
    private static String recallHandle(SendResult result) {
        try {
            Object handle = SendResult.class.getMethod("getRecallHandle").invoke(result);
            return handle == null ? "" : handle.toString();
        } catch (ReflectiveOperationException error) {
            return "";
        }
    }

    private static Map<String, Object> sent(long number, Message message, SendResult result) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("n", number);
        fields.put("topic", message.getTopic());
        fields.put("sha256", Messages.sha256(message.getBody()));
        fields.put("size", message.getBody().length);
        fields.put("tags", message.getTags());
        fields.put("keys", message.getKeys());
        fields.put("msgId", Messages.uniqueKey(message));
        fields.put("nowMs", System.currentTimeMillis());
        if (result != null) {
            fields.put("status", result.getSendStatus().name());
            fields.put("resultMsgId", result.getMsgId());
            fields.put("offsetMsgId", result.getOffsetMsgId());
            fields.put("broker", result.getMessageQueue().getBrokerName());
            fields.put("queueId", result.getMessageQueue().getQueueId());
            fields.put("queueOffset", result.getQueueOffset());
            fields.put("recallHandle", recallHandle(result));
        }
        return fields;
    }

    /** Sends "count" messages, by "how": sync, async, oneway, or ordered over "orderKeys" keys. */
    static Map<String, Object> send(Command command) throws Exception {
        DefaultMQProducer producer = producer(command);
        int count = command.integer("count", 1);
        long first = command.number("first", 0);
        int keys = command.integer("orderKeys", 1);
        CountDownLatch answers = new CountDownLatch(count);
        AtomicInteger failed = new AtomicInteger();
        for (long number = first; number < first + count; number++) {
            Message message = message(command, number);
            long each = number;
            switch (command.text("how", "sync")) {
                case "oneway":
                    producer.sendOneway(message);
                    command.event("sent", sent(number, message, null));
                    break;
                case "async":
                    producer.send(message, new SendCallback() {
                        @Override
                        public void onSuccess(SendResult result) {
                            command.event("sent", sent(each, message, result));
                            answers.countDown();
                        }

                        @Override
                        public void onException(Throwable error) {
                            Map<String, Object> fields = sent(each, message, null);
                            fields.put("error", error.toString());
                            command.event("unsent", fields);
                            failed.incrementAndGet();
                            answers.countDown();
                        }
                    });
                    break;
                case "ordered":
                    MessageQueueSelector selector = (queues, m, key) -> queues.get((int) ((Long) key % queues.size()));
                    Map<String, Object> fields = sent(number, message, producer.send(message, selector, number % keys));
                    fields.put("orderKey", number % keys);
                    command.event("sent", fields);
                    break;
                default:
                    command.event("sent", sent(number, message, producer.send(message)));
            }
        }
        if (command.text("how", "sync").equals("async") && !answers.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException(answers.getCount() + " asynchronous sends were never answered");
        }
        return Map.of("failed", failed.get());
    }

    /** Sends one batch of "count" messages. */
    static Map<String, Object> batch(Command command) throws Exception {
        List<Message> messages = new ArrayList<>();
        int count = command.integer("count", 1);
        long first = command.number("first", 0);
        for (long number = first; number < first + count; number++) {
            messages.add(message(command, number));
        }
        SendResult result = producer(command).send(messages);
        for (int index = 0; index < count; index++) {
            Map<String, Object> fields = sent(first + index, messages.get(index), result);
            fields.put("queueOffset", result.getQueueOffset() + index);
            fields.put("offsetMsgId", result.getOffsetMsgId().split(",")[Math.min(index,
                result.getOffsetMsgId().split(",").length - 1)]);
            command.event("sent", fields);
        }
        return Map.of("msgId", result.getMsgId(), "offsetMsgId", result.getOffsetMsgId());
    }

    /**
     * Sends from "threads" threads until told to stop by the name given. Each answered send is an event; a send that
     * fails is only counted, as nobody knows what became of it; with "tells" it is an event too, and so is every begin.
     */
    static Map<String, Object> load(Command command) throws Exception {
        AtomicBoolean stop = LOADS.computeIfAbsent(command.text("name"), name -> new AtomicBoolean());
        DefaultMQProducer producer = producer(command);
        long pause = TimeUnit.MICROSECONDS.toNanos(command.number("pauseMicros", 500));
        AtomicLong numbers = new AtomicLong(command.number("first", 0));
        AtomicLong acked = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        for (int index = 0; index < command.integer("threads", 4); index++) {
            Thread thread = new Thread(() -> {
                while (!stop.get()) {
                    long number = numbers.getAndIncrement();
                    Message message = message(command, number);
                    if (command.flag("tells")) {
                        command.event("begun", Map.of("n", number));
                    }
                    try {
                        SendResult result = producer.send(message);
                        command.event("acked", sent(number, message, result));
                        acked.incrementAndGet();
                        LockSupport.parkNanos(pause);
                    } catch (Exception error) {
                        failed.incrementAndGet();
                        if (command.flag("tells")) {
                            command.event("unknown", Map.of("n", number, "error", String.valueOf(error)));
                        }
                        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return Map.of("acked", acked.get(), "failed", failed.get());
    }

    static Map<String, Object> stopLoad(Command command) {
        LOADS.computeIfAbsent(command.text("name"), name -> new AtomicBoolean()).set(true);
        return Map.of();
    }

    /** Sends one half message for each of "verdicts"; a check of an undecided one is answered with commit. */
    static Map<String, Object> transaction(Command command) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(command.text("group", "interop-transactions"),
            Access.hook());
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object verdict) {
                return LocalTransactionState.valueOf((String) verdict);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                command.event("checked", Messages.describe(message));
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        prepare(producer, command).start();
        long number = 0;
        for (String verdict : command.texts("verdicts")) {
            Message message = message(command, number);
            Map<String, Object> fields = sent(number++, message, producer.sendMessageInTransaction(message, verdict));
            fields.put("verdict", verdict);
            command.event("sent", fields);
        }
        STARTED.put("transaction " + INSTANCES.get(), producer);  // it has checks to answer
        return Map.of();
    }

    /** Sends a request and waits for its answer. */
    static Map<String, Object> request(Command command) throws Exception {
        Message answer = producer(command).request(message(command, 0), command.number("waitMs", 60000));
        return Map.of("text", new String(answer.getBody(), StandardCharsets.UTF_8));
    }

    /** The producer that answers requests. */
    static DefaultMQProducer replier(Command command) throws Exception {
        return producer(command);
    }
}
