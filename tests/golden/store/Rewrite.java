import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.common.message.*;

/** Reads hex of property strings (UTF-8), writes hex of what a 4.9.7 broker stores: CLUSTER put, WAIT removed. */
public class Rewrite {
    static byte[] unhex(String s) {
        byte[] b = new byte[s.length() / 2];
        for (int i = 0; i < b.length; i++) b[i] = (byte) Integer.parseInt(s.substring(2 * i, 2 * i + 2), 16);
        return b;
    }
    static String hex(byte[] b) {
        StringBuilder s = new StringBuilder();
        for (byte x : b) s.append(String.format("%02x", x));
        return s.toString();
    }
    public static void main(String[] a) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String text = new String(unhex(line), StandardCharsets.UTF_8);
            Map<String, String> p = MessageDecoder.string2messageProperties(text);
            String tags = p.get("TAGS");
            String wait = p.get("WAIT");
            p.put("CLUSTER", "DefaultCluster");
            p.remove("WAIT");
            String out = MessageDecoder.messageProperties2String(p);
            System.out.println(hex(out.getBytes(StandardCharsets.UTF_8)) + " " + (tags == null ? 0 : tags.hashCode())
                + " " + (wait == null || Boolean.parseBoolean(wait)));
        }
    }
}
