// What the account that is logged in may do with one topic or group.
import { get, limited } from "./api.js";
import { t } from "./i18n.js";
import { useResource } from "./resource.js";

// Return a function of method and path: why the account may not use the route, "" if it may. `which`: { topic, group }.
export function useRights(which) {
  const asked = limited() && (which.topic || which.group);
  const { data, error } = useResource((abort) => (asked ? get("/session/rights", which, abort) : Promise.resolve(null)), [asked, which]);
  return (method, path) => {
    if (!asked || error) return "";
    if (!data) return t("loading");
    const found = data.items.find((one) => one.method === method && one.path === path);
    return found && !found.allowed ? found.reason : "";
  };
}
