package interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** The key of this JVM: interop.accessKey and interop.secretKey. */
final class Access {
    private Access() {
    }

    /** What signs requests; null without a key. */
    static RPCHook hook() {
        String key = System.getProperty("interop.accessKey");
        return key == null ? null
            : new AclClientRPCHook(new SessionCredentials(key, System.getProperty("interop.secretKey")));
    }
}
