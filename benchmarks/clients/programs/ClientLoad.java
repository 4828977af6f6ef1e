import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Apache's Java client under load. Takes the orders, and gives the answers, that meter.py and session.py describe.
 *
 * Arguments: the address of a registry, and the kernel's ticks of CPU time a second.
 */
public final class ClientLoad {
    private static final PrintStream OUT = System.out;

    /** An order: see Order in meter.py. */
    private static final class Order {
        final String kind;
        final String topic;
        final String group;
        final int body;
        final int inFlight;
        final long skip;
        final long limit;
        final double warmUp;
        final double seconds;

        Order(String line) {
            String[] words = line.trim().split(" ");
            kind = words[0];
            topic = words[1];
            group = words[2];
            body = Integer.parseInt(words[3]);
            inFlight = Integer.parseInt(words[4]);
            skip = Long.parseLong(words[5]);
            limit = Long.parseLong(words[6]);
            warmUp = Double.parseDouble(words[7]);
            seconds = Double.parseDouble(words[8]);
        }
    }

    /** The window of a load: see Meter in meter.py. */
    private static final class Meter {
        private final Order order;
        private final double ticks;
        private final boolean keepsLatencies;
        private final CountDownLatch ended = new CountDownLatch(1);
        private final long opensAt;
        private double[] latencies = new double[1 << 16];
        private int kept;
        private long total;
        private long before;
        private long openedAt;
        private double beganCpu;
        private double cpuUsed;
        private double seconds;
        private boolean open;
        private boolean over;

        Meter(Order order, double ticks) {
            this.order = order;
            this.ticks = ticks;
            keepsLatencies = order.inFlight == 1 && order.kind.equals("send");
            opensAt = System.nanoTime() + (long) (order.warmUp * 1e9);
        }

        synchronized boolean note(long began) throws Exception {
            if (over) {
                return false;
            }
            long moment = System.nanoTime();
            total++;
            if (open) {
                if (keepsLatencies) {
                    if (kept == latencies.length) {
                        latencies = Arrays.copyOf(latencies, kept * 2);
                    }
                    latencies[kept++] = (moment - began) / 1e6;
                }
            } else if (total > order.skip && moment >= opensAt) {
                open = true;
                before = total;
                openedAt = moment;
                beganCpu = ownCpu();
            }
            if (total < order.limit && !(open && moment - openedAt >= order.seconds * 1e9)) {
                return true;
            }
            if (open) {
                cpuUsed = ownCpu() - beganCpu;
                seconds = (moment - openedAt) / 1e9;
            }
            over = true;
            ended.countDown();
            return false;
        }

        private double ownCpu() throws Exception {
            String stat = Files.readString(Path.of("/proc/self/stat"));
            String[] words = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return (Long.parseLong(words[11]) + Long.parseLong(words[12])) / ticks;
        }

        private double quantile(double share) {
            return kept == 0 ? 0 : latencies[Math.max(0, (int) Math.ceil(kept * share) - 1)];
        }

        synchronized String answer() {
            Arrays.sort(latencies, 0, kept);
            return String.format(
                Locale.ROOT,
                "{\"total\": %d, \"messages\": %d, \"seconds\": %f, \"cpu_s\": %f, \"p50_ms\": %f, \"p99_ms\": %f}",
                total, open ? total - before : 0, seconds, cpuUsed, quantile(0.5), quantile(0.99));
        }
    }

    /** Sends the next message of one of those in flight whenever its last one was acknowledged. */
    private static final class Chain implements SendCallback {
        private final DefaultMQProducer producer;
        private final Order order;
        private final byte[] body;
        private final Meter meter;
        private final CountDownLatch left;
        private final AtomicReference<Throwable> error;

        Chain(DefaultMQProducer producer, Order order, byte[] body, Meter meter, CountDownLatch left,
              AtomicReference<Throwable> error) {
            this.producer = producer;
            this.order = order;
            this.body = body;
            this.meter = meter;
            this.left = left;
            this.error = error;
        }

        void send() {
            try {
                producer.send(new Message(order.topic, body), this);
            } catch (Exception failure) {
                onException(failure);
            }
        }

        @Override
        public void onSuccess(SendResult result) {
            try {
                if (meter.note(0)) {
                    send();
                } else {
                    left.countDown();
                }
            } catch (Exception failure) {
                onException(failure);
            }
        }

        @Override
        public void onException(Throwable failure) {
            error.compareAndSet(null, failure);
            left.countDown();
        }
    }

    private static void send(DefaultMQProducer producer, Order order, Meter meter) throws Throwable {
        byte[] body = new byte[order.body];
        if (order.inFlight == 1) {
            boolean goesOn = true;
            while (goesOn) {
                long began = System.nanoTime();
                producer.send(new Message(order.topic, body));
                goesOn = meter.note(began);
            }
            return;
        }
        CountDownLatch left = new CountDownLatch(order.inFlight);
        AtomicReference<Throwable> error = new AtomicReference<>();
        for (int number = 0; number < order.inFlight; number++) {
            new Chain(producer, order, body, meter, left, error).send();
        }
        left.await();
        if (error.get() != null) {
            throw error.get();
        }
    }

    private static void consume(String registry, Order order, Meter meter) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(order.group);
        consumer.setNamesrvAddr(registry);
        consumer.setInstanceName(order.group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(order.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (int number = 0; number < messages.size(); number++) {
                    meter.note(0);
                }
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            meter.ended.await();
        } finally {
            consumer.shutdown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // what libraries print is no answer
        String registry = arguments[0];
        double ticks = Double.parseDouble(arguments[1]);
        DefaultMQProducer producer = new DefaultMQProducer("ClientCost");
        producer.setNamesrvAddr(registry);
        producer.setSendMsgTimeout(10000);
        producer.start();
        OUT.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.isBlank(); line = in.readLine()) {
            Order order = new Order(line);
            Meter meter = new Meter(order, ticks);
            try {
                if (order.kind.equals("send")) {
                    send(producer, order, meter);
                } else {
                    consume(registry, order, meter);
                }
                OUT.println(meter.answer());
            } catch (Throwable failure) {
                String words = String.valueOf(failure).replaceAll("[^ -~]|[\"\\\\]", " ");
                OUT.println("{\"error\": \"" + words + "\"}");
            }
            OUT.flush();
        }
        producer.shutdown();
        System.exit(0);
    }
}
