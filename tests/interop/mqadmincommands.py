"""
The commands of mqadmin that L{tests.interop.test_mqadmin_every} runs, and which of them end otherwise at ours than at
the real broker. {n} is the registry, {b} the broker, {home} a folder, {unique} and {id} those of a message.
"""

from __future__ import annotations

from typing import Final

MESSAGES: Final = (
    "printMsg -n {n} -t orders -d true",
    "printMsg -n {n} -t orders -d true -s B",
    "printMsgByQueue -n {n} -t orders -a broker-a -i 0 -p true -d true",
    "printMsgByQueue -n {n} -t orders -a broker-a -i 0 -f true",
    "queryMsgByKey -n {n} -t orders -k k3",
    "queryMsgByKey -n {n} -t orders -k none",
    "queryMsgByOffset -n {n} -t orders -b broker-a -i 0 -o 3",
    "queryMsgByOffset -n {n} -t orders -b broker-a -i 0 -o 300",
    "queryMsgByUniqueKey -n {n} -t orders -i {unique}",
    "queryMsgById -n {n} {topic} -i {id}",
    "queryMsgById -n {n} {topic} -i {nowhere}",
    "queryMsgTraceById -n {n} -i {unique}",
    "consumeMessage -n {n} -t orders -b broker-a -i 0 -o 3 -c 2",
    "sendMessage -n {n} -t orders -p hello -c A -k k100 -b broker-a -i 1",
    "printMsgByQueue -n {n} -t orders -a broker-a -i 1 -p true -d true",
    "sendMsgStatus -n {n} -b broker-a -c 2",
    "checkMsgSendRT -n {n} -t orders -a 2",
    "updateTopic -n {n} -b {b} -t fresh -r 5 -w 4 -p 6",
    "updateTopic -n {n} -c DefaultCluster -t fresher -r 3 -w 3 -o true",
    "updateTopic -n {n} -b {b} -t bad!name -r 5 -w 4",
    "exportMetrics -n {n} -c DefaultCluster -f {home}",
)
"""What looks at messages, sends some, or makes topics. Some work once in a JVM: sendMessage and consumeMessage."""

FOREIGN: Final = (
    "setConsumeMode -n {n} -b {b} -t orders -g billing -m POP -q 2",
    "addBroker -n {n} -c {b} -b /nowhere.conf",
    "removeBroker -n {n} -c {b} -b DefaultCluster:broker-a:1",
    "resetMasterFlushOffset -n {n} -b {b} -o 0",
    "exportMetadataInRocksDB -n {n} -p /nowhere -t topics",
    "exportPopRecord -n {n} -b {b} -d true",
    "haStatus -n {n} -b {b}",
    "getSyncStateSet -n {n} -a {b} -b broker-a",
    "getBrokerEpoch -n {n} -b broker-a",
    "getControllerMetaData -n {n} -a {b}",
    "getControllerConfig -n {n} -a {b}",
    "updateControllerConfig -n {n} -a {b} -k key -v value",
    "electMaster -n {n} -a {b} -b 1 -bn broker-a -c DefaultCluster",
    "cleanBrokerMetadata -n {n} -a {b} -bn broker-a -c DefaultCluster -b 1",
    "dumpCompactionLog -n {n} -f /nowhere",
    "getColdDataFlowCtrInfo -n {n} -b {b}",
    "updateColdDataFlowCtrGroupConfig -n {n} -b {b} -g billing -v 5",
    "removeColdDataFlowCtrGroupConfig -n {n} -b {b} -g billing",
    "setCommitLogReadAheadMode -n {n} -b {b} -m 1",
    "rocksDBConfigToJson -n {n} -c DefaultCluster -t topics",
    "checkRocksdbCqWriteProgress -n {n} -c DefaultCluster",
    "updateStaticTopic -n {n} -b broker-a -t static -qn 2",
    "remappingStaticTopic -n {n} -b broker-a -t orders",
    "updateTopicList -n {n} -b {b} -f {home}/topics.json",
    "updateSubGroupList -n {n} -b {b} -f {home}/groups.json",
    "topicRoute -n {n} -t listed",
)
"""What 5.3 has for parts of 5.x."""

RULES_CHANGED: Final = (
    "clusterAclConfigVersion -n {n} -b {b}",
    "clusterAclConfigVersion -n {n} -c DefaultCluster",
    "getAclConfig -n {n} -b {b}",
    "updateAclConfig -n {n} -b {b} -a alice-one -s secret-one -t orders=PUB",
    "updateAclConfig -n {n} -c DefaultCluster -a alice-two -s secret-two -i PUB -u SUB -w 10.1.1.* -m false -g g1=SUB",
    "updateAclConfig -n {n} -b {b} -a alice-three -s secret-three",
    "updateAclConfig -n {n} -b {b} -a al -s secret-one",
    "deleteAclConfig -n {n} -b {b} -a alice-three",
    "deleteAclConfig -n {n} -b {b} -a nobody-at-all",
    "updateGlobalWhiteAddr -n {n} -b {b} -g 10.1.1.400",
    "updateGlobalWhiteAddr -n {n} -b {b} -g 10.1.1.*,10.2.*.*",
    "updateBrokerConfig -n {n} -b {b} -k autoCreateTopicEnable -v true",
    "updateBrokerConfig -n {n} -c DefaultCluster -k autoCreateTopicEnable -v false",
    "updateNamesrvConfig -n {n} -k orderMessageEnable -v true",
)
"""What changes access control of 4.x, and settings, which ours changes only with it."""

USERS_CHANGED: Final = (
    "createUser -n {n} -b {b} -u alice -p alice-secret -t Normal",
    "createUser -n {n} -b {b} -u bob -p bob-secret -t Super",
    "createUser -n {n} -b {b} -u bob -p bob-secret",
    "createUser -n {n} -c DefaultCluster -u carol -p carol-secret -t Normal",
    "createAcl -n {n} -b {b} -s User:alice -r Topic:ord* -a Pub -d Allow",
    "createAcl -n {n} -b {b} -s User:nobody -r Topic:ord* -a Pub -d Allow",
    "createAcl -n {n} -c DefaultCluster -s User:carol -r Group:g* -a Sub,Get -i 10.0.0.0/8,127.0.0.1 -d Deny",
    "updateAcl -n {n} -b {b} -s User:alice -r Topic:ord* -a Pub,Sub -d Deny",
    "updateUser -n {n} -b {b} -u bob -s disable",
    "updateUser -n {n} -b {b} -u nobody -s disable",
    "updateUser -n {n} -c DefaultCluster -u carol -t Super",
    "listUser -n {n} -b {b}",
    "listUser -n {n} -c DefaultCluster -f al",
    "getUser -n {n} -b {b} -u bob",
    "getUser -n {n} -b {b} -u nobody",
    "listAcl -n {n} -b {b}",
    "listAcl -n {n} -c DefaultCluster -s alice -r Topic",
    "getAcl -n {n} -b {b} -s User:alice",
    "getAcl -n {n} -c DefaultCluster -s User:nobody",
    "copyUser -n {n} -f {b} -t {b} -u alice,bob",
    "copyAcl -n {n} -f {b} -t {b}",
    "deleteAcl -n {n} -b {b} -s User:alice -r Topic:ord*",
    "deleteAcl -n {n} -b {b} -s User:nobody",
    "deleteAcl -n {n} -c DefaultCluster -s User:carol",
    "listAcl -n {n} -b {b}",
    "deleteUser -n {n} -b {b} -u alice",
    "deleteUser -n {n} -b {b} -u nobody",
    "deleteUser -n {n} -c DefaultCluster -u carol",
    "listUser -n {n} -b {b}",
)
"""What changes and shows users and policies of 5.x; the other side is RocketMQ 5."""

ENDLESS: Final = frozenset({"clusterRT", "startMonitoring"})
"""Commands that go on until they are killed: L{tests.interop.test_mqadmin_every.EndlessTests}."""

COMPARED_APART: Final = frozenset({"brokerStatus", "getBrokerConfig", "getNamesrvConfig"})
"""Commands that L{tests.interop.test_mqadmin_sidebyside} compares by names and values."""

NEEDS_351: Final = "code 3"
DIFFERENT: Final = {
    # theirs prints all secrets: reliability X8
    ("4.9", "getAclConfig -n {n} -b {b}"): ("code 1", ""),
    ("4.9", "updateGlobalWhiteAddr -n {n} -b {b} -g 10.1.1.400"): ("code 211", ""),
    ("5.3", "exportMetrics -n {n} -c DefaultCluster -f {home}"): (
        "", 'Cannot invoke "String.split(String)" because "getTransferredTps" is null',
    ),
    ("5.3", "remappingStaticTopic -n {n} -b broker-a -t orders"): (
        "Mapping info should not be null in broker broker-a", NEEDS_351,
    ),
    ("5.3", "updateStaticTopic -n {n} -b broker-a -t static -qn 2"): ("code 3", NEEDS_351),  # ours for 513
    ("5.3", "updateTopicList -n {n} -b {b} -f {home}/topics.json"): ("", "code 3"),
    ("5.3", "updateSubGroupList -n {n} -b {b} -f {home}/groups.json"): ("", "code 3"),
    ("5.3", "topicRoute -n {n} -t listed"): ("", "code 17"),
}  # fmt: skip
"""Commands that end otherwise, by generation: how ours, how theirs."""
