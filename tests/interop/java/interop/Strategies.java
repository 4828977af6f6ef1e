package interop;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** The strategies that share out queues, asked directly. */
final class Strategies {
    private Strategies() {
    }

    private static AllocateMessageQueueStrategy strategy(List<String> words) {
        String name = words.get(0);
        if (name.startsWith("MACHINE_ROOM_NEARBY-")) {
            String inner = name.substring("MACHINE_ROOM_NEARBY-".length());
            return new AllocateMachineRoomNearby(strategy(List.of(inner)), new AllocateMachineRoomNearby.MachineRoomResolver() {
                @Override
                public String brokerDeployIn(MessageQueue queue) {
                    return queue.getBrokerName().split("@", 2)[0];
                }

                @Override
                public String consumerDeployIn(String client) {
                    return client.split("@", 2)[0];
                }
            });
        }
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash();
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom found = new AllocateMessageQueueByMachineRoom();
                found.setConsumeridcs(new HashSet<>(words.subList(1, words.size())));
                return found;
            default:
                throw new IllegalArgumentException("unknown strategy " + name);
        }
    }

    /** What each of "members" gets of "queues" (broker name and queue id) of topic T, each sorted as they are here. */
    static Map<String, Object> allocate(Command command) {
        AllocateMessageQueueStrategy strategy = strategy(command.texts("strategy"));
        List<MessageQueue> queues = new ArrayList<>();
        for (List<String> each : command.rows("queues")) {
            queues.add(new MessageQueue("T", each.get(0), Integer.parseInt(each.get(1))));
        }
        queues.sort(null);
        List<String> members = new ArrayList<>(command.texts("members"));
        members.sort(null);
        List<List<String>> shares = new ArrayList<>();
        for (String member : members) {
            List<String> share = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("g", member, queues, members)) {
                share.add(queue.getBrokerName() + " " + queue.getQueueId());
            }
            shares.add(share);
        }
        return Map.of("name", strategy.getName(), "members", members, "shares", shares);
    }
}
