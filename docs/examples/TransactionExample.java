import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class TransactionExample {
    public static void main(String[] arguments) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("orders-producer");
        producer.setNamesrvAddr(arguments.length > 0 ? arguments[0] : "127.0.0.1:9876");
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object order) {
                return save((String) order, message.getTransactionId())
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return isSaved(message.getTransactionId())
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        Message message = new Message("Orders", "order 7".getBytes());
        System.out.println(producer.sendMessageInTransaction(message, "order 7").getLocalTransactionState());
        producer.shutdown();
    }

    /** Stores the order and the transaction's id in one transaction of the database. */
    static boolean save(String order, String transaction) {
        return true;
    }

    static boolean isSaved(String transaction) {
        return true;
    }
}
