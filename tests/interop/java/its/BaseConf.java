package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.util.MQAdmin;

/**
 * The base of RocketMQ's integration tests, for a cluster that runs already. It stands in the place of the class of the
 * same name in the tests' jar, which starts brokers of its own. It has what the tests use that are run here.
 *
 * <p>System properties: interop.namesrv (host:port) and interop.cluster.
 */
public class BaseConf {
    public static String nsAddr = System.getProperty("interop.namesrv");
    protected static String clusterName = System.getProperty("interop.cluster");
    protected static int consumeTime = 2 * 60 * 1000;
    private static final int QUEUES = 8;
    private static final int TOPIC_SECONDS = 30;
    private static final List<RMQNormalProducer> PRODUCERS = new ArrayList<>();

    public static String initTopic() {
        String topic = "it-topic-" + UUID.randomUUID();
        if (!MQAdmin.createTopic(nsAddr, clusterName, topic, QUEUES, TOPIC_SECONDS)) {
            throw new AssertionError("the topic " + topic + " was not created");
        }
        return topic;
    }

    public static String initConsumerGroup() {
        String group = "it-group-" + UUID.randomUUID();
        if (!MQAdmin.createSub(nsAddr, clusterName, group)) {
            throw new AssertionError("the group " + group + " was not created");
        }
        return group;
    }

    public static RMQNormalProducer getProducer(String nsAddr, String topic) {
        RMQNormalProducer producer = new RMQNormalProducer(nsAddr, topic, false);
        PRODUCERS.add(producer);
        return producer;
    }

    public static void shutdown() {
        PRODUCERS.forEach(RMQNormalProducer::shutdown);
        PRODUCERS.clear();
    }
}
