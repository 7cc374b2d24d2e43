import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

type Transport = Readonly<{
  sendMessages: (options: object) => Promise<unknown>;
  reconnectToStream: (options: object) => Promise<unknown>;
}>;
type Package = Readonly<{ DefaultChatTransport: new (options: object) => Transport }>;

const folder = (name: string) => path.join(import.meta.dirname, 'node_modules', name);
// npm ci --prefix test/facades/chat-versions
const isInstalled = existsSync(folder('ai-5')) && existsSync(folder('ai-6'));

/** What the transport of a version hands to `fetch`. */
async function requestsOf({ DefaultChatTransport }: Package): Promise<string[]> {
  const seen: string[] = [];
  const fetch = async (url: string, { method, headers, body }: RequestInit) => {
    seen.push(JSON.stringify([url, method, [...new Headers(headers)], body]));
    return new Response(null, { status: 204 });
  };
  const transport = new DefaultChatTransport({ api: '/api/chat', fetch, body: { agent: 'a' } });
  const messages = [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Go' }] }];
  for (const trigger of ['submit-message', 'regenerate-message']) {
    const options = { chatId: 'c1', messages, trigger, messageId: 'm1', abortSignal: undefined };
    await transport.sendMessages(options).catch(() => undefined);
  }
  await transport.reconnectToStream({ chatId: 'c1' }).catch(() => undefined);
  return seen;
}

describe.runIf(isInstalled)('the requests of AI SDK 5, 6 and 7', () => {
  it('are the same, so a page has to name its version', async () => {
    const [five, six, seven] = await Promise.all(
      [folder('ai-5/dist/index.mjs'), folder('ai-6/dist/index.mjs'), 'ai'].map(async (name) =>
        requestsOf((await import(name)) as Package),
      ),
    );
    expect(five).toHaveLength(3);
    expect(six).toEqual(five);
    expect(seven).toEqual(five);
  });
});
