"""
Names that are not settings of smartgo: those that mean nothing here, those that must not be ignored, and BoltMQ's; and
the settings that nothing follows yet.

Sources: the setters of the configuration classes of RocketMQ 4.9.7 and 5.3.3; docs/spec/smartgo-differences#settings.
"""

from __future__ import annotations

# Thread pools, queues and socket buffers of the Java process; what remains of its store tuning; features of 5.x that
# are not part of smartgo and that a broker works without.
_TAKEN = """
    accountStatsEnable accountStatsPrintZeroValues ackMessageThreadPoolNums ackThreadPoolQueueCapacity
    adminBrokerThreadPoolNums adminBrokerThreadPoolQueueCapacity allAckInSyncStateSet
    allowRecallWhenBrokerNotWriteable appendAckAsync appendCkAsync asyncLearner asyncSendEnable autoDeleteUnusedStats
    batchDispatchRequestThreadPoolNums bitMapLengthConsumeQueueExt broadcastOffsetExpireMaxSecond
    broadcastOffsetExpireSecond brokerConfigPath brokerElectionPriority brokerHeartbeatInterval
    brokerNotActiveTimeoutMillis cgColdReadThreshold channelExpiredTimeout channelNotActiveInterval
    checkSyncStateSetPeriod cleanOfflineBrokerInterval clearRetryTopicWhenDeleteTopic
    clientAsyncSemaphoreValue clientCallbackExecutorThreads clientChannelMaxIdleTimeSeconds
    clientCloseSocketIfTimeout clientManageThreadPoolNums clientManagerThreadPoolQueueCapacity
    clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable clientRequestThreadPoolNums
    clientRequestThreadPoolQueueCapacity clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads clusterTest
    coldCtrStrategyEnable coldDataFlowControlEnable coldDataScanEnable commercialBaseCount commercialBigCount
    commercialEnable commercialSizePerMsg commercialTimerCount commercialTransCount commitCommitLogLeastPages
    commitCommitLogThoroughInterval commitIntervalCommitLog compactionCqMappedFileSize compactionMappedFileSize
    compactionScheduleInternal compactionThreadNum compatibleWithOldNameSrv configBlackList configManagerVersion
    configStorePath connectTimeoutMillis consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity
    consumerOffsetUpdateVersionStep controllerAddr controllerHeartBeatTimeoutMills dLegerGroup dLegerPeers
    dLegerSelfId dataReadAheadEnable debugLockEnable defaultMessageRequestMode defaultPopShareQueueNum
    defaultThreadPoolNums defaultThreadPoolQueueCapacity delayOffsetUpdateVersionStep
    deleteTopicWithBrokerRegistration
    disableCallbackExecutor disableNettyWorkerGroup disappearTimeAfterStart diskFallRecorded duplicationEnable
    enableAllTopicList enableAutoInSyncReplicas enableBatchPush enableBroadcastOffsetStore
    enableBuildConsumeQueueConcurrently enableCalcFilterBitMap enableCompaction enableConsumeQueueExt
    enableControllerInNamesrv enableCreateSysGroup enableDetailStat enableFastChannelEventProcess enableLmq
    enableLmqStats enableMixedMessageType enableMultiDispatch enableNetWorkFlowControl
    enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck enablePopBufferMerge
    enablePopLog enablePopMessageThreshold enableReconnectForGoAway enableRegisterProducer enableRemoteEscape
    enableRetryTopicV2 enableRocksDBLog enableScheduleAsyncDeliver enableScheduleMessageStats
    enableShutdownGracefully enableSingleTopicRegister enableSkipLongAwaitingAck enableSlaveActingMaster
    enableSplitRegistration enableTopicList enabledAppendPropCRC endTransactionPoolQueueCapacity
    endTransactionThreadPoolNums estimateAccumulation expectConsumerNumUseFilter fastFailIfNoBufferInStorePool
    fetchControllerAddrByDnsLookup fetchNamesrvAddrInterval filterDataCleanTimeSpan filterServerNums
    flushCommitLogLeastPages flushCommitLogThoroughInterval flushCommitLogTimed flushConsumeQueueLeastPages
    flushConsumeQueueThoroughInterval flushConsumerOffsetHistoryInterval flushIntervalConsumeQueue
    flushLeastPagesWhenWarmMapedFile forceVerifyPropCRC forwardTimeout globalColdReadThreshold
    haFlowControlEnable haMaxTimeSlaveNotCatchup heartbeatThreadPoolNums heartbeatThreadPoolQueueCapacity
    highSpeedMode inSyncReplicas initPopOffsetByCheckMsgInMem isEnableBatchPush isolateLogEnable
    litePullMessageEnable litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity
    loadBalancePollNameServerInterval loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity
    lockInStrictMode logicalDiskSpaceCleanForciblyThreshold mappedFileSizeConsumeQueueExt mappedFileSizeTimerLog
    maxChecksumRange maxConsumeQueueScan maxDelayTime maxErrorRateOfBloomFilter maxHaTransferByteInSecond
    maxLmqConsumeQueueNum maxOffsetMapSize maxPopPollingSize maxReconnectIntervalTimeSeconds maxSlaveResendLength
    maxStatsIdleTimeInMinutes memTableFlushIntervalMs messageIndexSafe messageStorePlugIn
    metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
    metricsExporterType metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel
    metricsOtelCardinalityLimit metricsPromExporterHost metricsPromExporterPort minInSyncReplicas
    needWaitForService notifyMessageArriveInBatch notifyMinBrokerIdChanged osPageCacheBusyTimeOutMills
    popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut popConsumerFSServiceInit
    popConsumerKVServiceEnable popConsumerKVServiceInit popConsumerKVServiceLog popFromRetryProbability
    popInflightMessageThreshold popLongPollingForceNotifyInterval popPollingMapSize popPollingSize
    popResponseReturnActualRetryTopic popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead preferredLeaderId
    printChannelGroups printChannelGroupsMinNum processReplyMessageThreadPoolNums productEnvName
    pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums putMsgIndexHightWater
    putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity readUnCommitted
    realTimeNotifyConsumerChange realTimePersistRocksDBConfig recoverConcurrently
    recoverThreadPoolNums redeleteHangedFileInterval rejectPullConsumerEnable replicasPerDiskPartition
    replyThreadPoolQueueCapacity retrieveMessageFromPopRetryTopicV1 returnOrderTopicConfigToBroker reviveAckWaitMs
    reviveInterval reviveMaxSlow reviveQueueNum reviveScanTime sampleCountThreshold sampleSteps scanAvailableNameSrv
    scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked sendHeartbeatTimeoutMillis
    sendMessageThreadPoolNums sendThreadPoolQueueCapacity serverAsyncSemaphoreValue serverCallbackExecutorThreads
    serverLoadBalancerEnable serverNettyWorkerGroupEnable serverOnewaySemaphoreValue
    serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize
    serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds skipPreOnline skipWhenCKRePutReachMaxTimes
    socksProxyConfig splitRegistrationSize storePathConsumeQueue storePathDLedgerCommitLog storePathIndex
    storeCheckpoint abortFile subscriptionExpiredTimeout supportActingMaster syncBrokerMemberGroupPeriod
    syncBrokerMetadataPeriod syncControllerMetadataPeriod syncFromLastFile syncMasterFlushOffsetWhenStartup
    timerCheckMetricsWhen timerColdDataCheckIntervalMs timerCongestNumEachSlot timerEnableCheckMetrics
    timerEnableDisruptor timerFlushIntervalMs timerGetMessageThreadNum timerInterceptDelayLevel
    timerMetricSmallThreshold timerPrecisionMs timerProgressLogIntervalMs timerPutMessageThreadNum
    timerRollWindowSlot timerSkipUnknownError timerStopDequeue timerStopEnqueue timerWarmEnable
    tls.client.authServer tls.server.authClient tls.test.mode.enable topicQueueLockNum totalReplicas
    transactionMetricFlushInterval transactionOpBatchInterval transactionOpMsgMaxSize transferMsgByHeap
    transientStorePoolEnable transientStorePoolSize unRegisterBrokerQueueCapacity updateNameServerAddrPeriod
    useEpollNativeSelector usePIDColdCtrStrategy useReentrantLockWhenPutMessage useServerSideResetOffset
    useStaticSubscription validateSystemTopicWhenUpdateTopic waitSecondsForService waitTimeMillsInAckQueue
    waitTimeMillsInAdminBrokerQueue waitTimeMillsInLitePullQueue warmMapedFileEnable writeBufferHighWaterMark
    writeBufferLowWaterMark mapedFileSizeConsumeQueueExt
"""

WITHOUT_MEANING = frozenset(_TAKEN.split())
"""Settings of RocketMQ that have no effect here; taken without a word, so that its files can be used unchanged."""

MUST_BE = {
    "enableDLegerCommitLog": (
        "false",
        "it switches on RocketMQ's Raft log (DLedger), which smartgo does not have; use brokerRole for replication",
    ),
    "enableControllerMode": (
        "false",
        "it switches on RocketMQ's controller, which smartgo does not have; use brokerRole for replication",
    ),
    "fetchNamesrvAddrByAddressServer": ("false", "registries are not looked up over HTTP; list them in namesrvAddr"),
    "fetchNameSrvAddrByDnsLookup": ("false", "registries are not looked up by name; list them in namesrvAddr"),
    "storeType": ("default", "the RocksDB queues of RocketMQ 5 are not part of smartgo"),
    "readOnlyCommitLogStorePaths": ("", "the CommitLog lies in one directory"),
}
"""Settings of RocketMQ that would be dangerous to ignore: the one value they may have, and why."""

FOREIGN_TABLES = {"cluster": "broker", "namesrv": "registry"}
"""Tables of BoltMQ's files, and ours that take their place."""

FOREIGN_KEYS = {
    ("cluster", "name"): ("broker", "brokerClusterName"),
    ("cluster", "ha_server_ip"): ("broker", "brokerIP2"),
    ("cluster", "namesrv_addrs"): ("broker", "namesrvAddr"),
    ("broker", "port"): ("broker", "listenPort"),
    ("broker", "ip"): ("broker", "brokerIP1"),
    ("broker", "permission"): ("broker", "brokerPermission"),
    ("broker", "short_polling_timemills"): ("broker", "shortPollingTimeMills"),
    ("broker", "delete_when"): ("store", "deleteWhen"),
    ("broker", "offset_check_in_slave"): ("store", "offsetCheckInSlave"),
    ("broker", "ha_master_addr"): ("ha", "haMasterAddress"),
    ("store", "root_dir"): ("store", "storePathRootDir"),
    ("namesrv", "host"): ("registry", "bindAddress"),
    ("namesrv", "port"): ("registry", "listenPort"),
}
"""Keys of BoltMQ's files whose names are not ours in lower case with underscores."""

FOREIGN_WITHOUT_MEANING = frozenset(
    {
        ("broker", "flush_consumer_offset_history_interval"),
        ("broker", "fetch_namesrv_addr_by_address_server"),
        ("broker", "send_thread_pool_queue_capacity"),
        ("broker", "pull_thread_pool_queue_capacity"),
        ("broker", "filter_server_nums"),
        ("log", "config_file_path"),
    }
)
"""Keys of BoltMQ's files that have no effect here."""

NOT_BUILT = frozenset(
    {
        "filterSupportRetry", "disableConsumeIfConsumerReadSlowly", "consumerFallbehindThreshold",
        "brokerFastFailureEnable", "waitTimeMillsInSendQueue", "waitTimeMillsInPullQueue",
        "waitTimeMillsInHeartbeatQueue", "waitTimeMillsInTransactionQueue", "startAcceptSendRequestTimeStamp",
        "checkCRCOnRecover", "checkCRCOnRead",
        "headerMaxLength", "undoneSendsMaxSize",
    }
)  # fmt: skip
"""Settings that are read and checked and have no effect yet. Their descriptions say so (L{smartgo.config.catalog})."""
