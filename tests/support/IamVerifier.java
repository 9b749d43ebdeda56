import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * A broker's side of AWS's tokens: verifies Signature Version 4 of the query that a token is, as AWS documents it.
 *
 * The keys that it knows are in the system property iam.keys, ID=SECRET.
 */
public final class IamVerifier implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter WHEN = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'");

    public static void premain(String arguments) { }

    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) { }

    public void close() { }

    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (!(callback instanceof OAuthBearerValidatorCallback)) {
                throw new UnsupportedCallbackException(callback);
            }
            OAuthBearerValidatorCallback asked = (OAuthBearerValidatorCallback) callback;
            try {
                asked.token(verified(asked.tokenValue()));
            } catch (Exception error) {
                asked.error("invalid_token", null, null);
            }
        }
    }

    private static OAuthBearerToken verified(String token) throws Exception {
        URI url = URI.create(new String(Base64.getUrlDecoder().decode(token), StandardCharsets.UTF_8));
        TreeMap<String, String> signed = new TreeMap<>();
        TreeMap<String, String> values = new TreeMap<>();
        for (String pair : url.getRawQuery().split("&")) {
            String[] parts = pair.split("=", 2);
            values.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
            if (!parts[0].equals("X-Amz-Signature") && !parts[0].equals("User-Agent")) {
                signed.put(parts[0], parts[1]);
            }
        }
        String[] scope = values.get("X-Amz-Credential").split("/");
        String[] known = System.getProperty("iam.keys").split("=");
        require(scope[0].equals(known[0]) && scope[3].equals("kafka-cluster") && scope[4].equals("aws4_request"));
        require(values.get("Action").equals("kafka-cluster:Connect"));
        require(url.getHost().equals("kafka." + scope[2] + ".amazonaws.com"));
        StringBuilder query = new StringBuilder();
        signed.forEach((name, value) -> query.append(query.length() == 0 ? "" : "&").append(name + "=" + value));
        String request = "GET\n/\n" + query + "\nhost:" + url.getHost() + "\n\nhost\n" + hex(sha256(""));
        String date = values.get("X-Amz-Date");
        String day = scope[1] + "/" + scope[2] + "/" + scope[3] + "/" + scope[4];
        String text = "AWS4-HMAC-SHA256\n" + date + "\n" + day + "\n" + hex(sha256(request));
        byte[] key = ("AWS4" + known[1]).getBytes(StandardCharsets.UTF_8);
        for (int part = 1; part < 5; part++) {
            key = hmac(key, scope[part]);
        }
        require(hex(hmac(key, text)).equals(values.get("X-Amz-Signature")));
        long from = LocalDateTime.parse(date, WHEN).toInstant(ZoneOffset.UTC).toEpochMilli();
        long until = from + 1000 * Long.parseLong(values.get("X-Amz-Expires"));
        require(until > Instant.now().toEpochMilli());
        return new Verified(token, scope[0], from, until);
    }

    private static void require(boolean holds) {
        if (!holds) {
            throw new IllegalArgumentException();
        }
    }

    private static byte[] sha256(String text) throws Exception {
        return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] hmac(byte[] key, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private record Verified(String value, String principalName, Long startTimeMs, long lifetimeMs)
            implements OAuthBearerToken {
        public Set<String> scope() {
            return Set.of();
        }
    }
}
