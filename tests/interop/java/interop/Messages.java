package interop;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Bodies made to order, and messages told as JSON. */
final class Messages {
    private static final int SHORT = 200;

    private Messages() {
    }

    /**
     * Makes a body that starts with the label and the number. Padding is text that compresses well, or bytes drawn
     * from the seed that do not.
     */
    static byte[] body(String label, long number, int size, boolean compressible, long seed) {
        byte[] head = (label + "-" + number).getBytes(StandardCharsets.UTF_8);
        if (size <= head.length) {
            return head;
        }
        byte[] body = new byte[size];
        if (compressible) {
            Arrays.fill(body, (byte) '.');
        } else {
            new Random(seed + number).nextBytes(body);
        }
        System.arraycopy(head, 0, body, 0, head.length);
        return body;
    }

    static String sha256(byte[] body) {
        try {
            StringBuilder text = new StringBuilder();
            for (byte each : MessageDigest.getInstance("SHA-256").digest(body)) {
                text.append(String.format("%02x", each));
            }
            return text.toString();
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    static String uniqueKey(Message message) {
        return message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
    }

    /** Tells everything a test may ask of a received message; times in ms. */
    static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", message.getTopic());
        fields.put("queueId", message.getQueueId());
        fields.put("queueOffset", message.getQueueOffset());
        fields.put("physicalOffset", message.getCommitLogOffset());
        fields.put("msgId", uniqueKey(message));
        fields.put("offsetMsgId", message instanceof MessageClientExt
            ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId());
        fields.put("sha256", sha256(message.getBody()));
        fields.put("size", message.getBody().length);
        if (message.getBody().length <= SHORT) {
            fields.put("text", new String(message.getBody(), StandardCharsets.UTF_8));
        }
        fields.put("tags", message.getTags());
        fields.put("keys", message.getKeys());
        fields.put("properties", new TreeMap<>(message.getProperties()));
        fields.put("flag", message.getFlag());
        fields.put("sysFlag", message.getSysFlag());
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("bornMs", message.getBornTimestamp());
        fields.put("storedMs", message.getStoreTimestamp());
        fields.put("nowMs", System.currentTimeMillis());
        return fields;
    }
}
