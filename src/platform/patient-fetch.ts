import { Agent, type Dispatcher, ProxyAgent, fetch as undiciFetch } from 'undici';
import { byProxy, type OutboundProxy, proxyFor } from './proxy.ts';

/** Those of undici are 300 seconds. */
const NO_LIMITS = { headersTimeout: 0, bodyTimeout: 0 } as const;

/**
 * `fetch` without time limits of its own, by the proxy of `HTTPS_PROXY` or `HTTP_PROXY`. That of Node gives up when no
 * headers, or no bytes of a body, came for 300 seconds, whatever its caller allows: a local model may need longer to read
 * a prompt, and each new attempt begins anew. The caller's signal ends it.
 * @throws TypeError as `fetch` does; BatonError `config_invalid` for a variable that names no proxy
 */
export const patientFetch: typeof fetch = async (input, init) => {
  // The package is the one that is built into Node. Only its types have other names.
  const ask = undiciFetch as unknown as (input: unknown, init: object) => Promise<Response>;
  const proxy = proxyFor(new URL(input instanceof Request ? input.url : input));
  try {
    return await ask(input, { ...init, dispatcher: dispatcherOf(proxy) });
  } catch (error) {
    if (proxy === null || !(error instanceof TypeError) || error.message !== 'fetch failed') throw error;
    throw new TypeError(error.message, { cause: byProxy(proxy, error) });
  }
};

let direct: Dispatcher | undefined;
const proxied = new Map<string, Dispatcher>();

/** Kept, and so its connections. Null: no proxy. */
export function dispatcherOf(proxy: OutboundProxy | null): Dispatcher {
  if (proxy === null) {
    direct ??= new Agent(NO_LIMITS);
    return direct;
  }
  const { href } = proxy.url;
  // Many proxies allow tunnels to port 443 alone, so plain requests are sent without one.
  const agent = proxied.get(href) ?? new ProxyAgent({ uri: href, proxyTunnel: false, ...NO_LIMITS });
  proxied.set(href, agent);
  return agent;
}
