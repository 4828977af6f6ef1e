import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** A reminder that is delivered after two hours, tested in seconds. In JUnit, start() stands in @BeforeAll. */
public final class ReminderTest {
    public static void main(String[] arguments) throws Exception {
        try (SmartgoBroker broker = new SmartgoBroker().withSetting("autoCreateTopicEnable", "false").start()) {
            broker.createTopic("Reminders", 4);
            CountDownLatch reminded = new CountDownLatch(1);
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("reminders");
            consumer.setNamesrvAddr(broker.getNamesrvAddr());
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe("Reminders", "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                System.out.println("reminded: " + new String(messages.get(0).getBody()));
                reminded.countDown();
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            DefaultMQProducer producer = new DefaultMQProducer("reminders");
            producer.setNamesrvAddr(broker.getNamesrvAddr());
            producer.start();

            Message reminder = new Message("Reminders", "pay".getBytes());
            reminder.setDelayTimeLevel(18); // two hours
            broker.refuse("send", 14, 1); // the producer sends again
            System.out.println("sent: " + producer.send(reminder).getSendStatus());
            if (reminded.getCount() == 0) {
                throw new AssertionError("reminded too early");
            }
            broker.advance(7200);
            if (!reminded.await(20, TimeUnit.SECONDS)) {
                throw new AssertionError("not reminded");
            }
            System.out.println("stored: " + broker.bodies("Reminders", 1));
            producer.shutdown();
            consumer.shutdown();
        }
    }
}
