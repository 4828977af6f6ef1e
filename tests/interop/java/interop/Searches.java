package interop;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * The calls that mqadmin's queryMsgByKey and queryMsgByUniqueKey make, for many keys one after another.
 *
 * The command for unique keys keeps one connection for good and shuts it down after its first use, so that it works once
 * in a JVM.
 */
final class Searches {
    private Searches() {
    }

    /** Looks for each of "rows", a topic and a key, with "unique" a unique key; an event tells the ids of each. */
    static Map<String, Object> search(Command command) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Access.hook(), Administration.TIMEOUT_MS);
        admin.setNamesrvAddr(command.text("namesrv"));
        admin.setInstanceName("search" + System.nanoTime() + "-" + ProcessHandle.current().pid());
        admin.setVipChannelEnabled(false);
        admin.start();
        try {
            for (List<String> row : command.rows("rows")) {
                List<String> ids = new ArrayList<>();
                try {
                    for (MessageExt each : find(admin, row.get(0), row.get(1), command.flag("unique"))) {
                        ids.add(Messages.describe(each).get("offsetMsgId").toString());
                    }
                } catch (MQClientException none) {
                    command.event("missed", Map.of("topic", row.get(0), "key", row.get(1), "why", none.toString()));
                    continue;
                }
                command.event("found", Map.of("topic", row.get(0), "key", row.get(1), "ids", ids));
            }
        } finally {
            admin.shutdown();
        }
        return Map.of();
    }

    private static List<MessageExt> find(DefaultMQAdminExt admin, String topic, String key, boolean unique)
            throws Exception {
        if (!unique) {
            return admin.queryMessage(topic, key, 64, 0, Long.MAX_VALUE).getMessageList();
        }
        for (Method each : DefaultMQAdminExt.class.getMethods()) {
            if (each.getName().equals("queryMessageByUniqKey") && each.getParameterCount() >= 5) {
                Object[] arguments = each.getParameterCount() == 5  // newer ones take a cluster first
                        ? new Object[] {topic, key, 32, 0L, Long.MAX_VALUE}
                        : new Object[] {null, topic, key, 32, 0L, Long.MAX_VALUE};
                try {
                    return ((QueryResult) each.invoke(admin, arguments)).getMessageList();
                } catch (java.lang.reflect.InvocationTargetException error) {
                    if (error.getCause() instanceof Exception) {
                        throw (Exception) error.getCause();
                    }
                    throw error;
                }
            }
        }
        throw new IllegalStateException("no queryMessageByUniqKey");
    }
}
