import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import type { BrowserContext } from 'playwright-core';
import type { Agent } from '../../../src/agents/agent.ts';
import { type BatonClient, createClient } from '../../../src/client/client.ts';
import type { Tool } from '../../../src/tools/tool.ts';
import { startBrowser } from '../../examples/browser.ts';
import { type ChatServiceOptions, startChatService } from '../../facades/ui-chat-fixture.ts';
import type { TestService } from '../../support/service.ts';

const ROOT = path.join(import.meta.dirname, '../../..');

export type Console = AsyncDisposable &
  Readonly<{
    service: TestService;
    /** Of the service: the console is at `/console/`. */
    url: string;
    client: BatonClient;
    /** Of the browser. */
    context: BrowserContext;
  }>;

/** Service, worker, API with the built console, and a browser. Each agent's model is scripted by the agent's name. */
export async function startConsole(
  chromium: string,
  agents: readonly Partial<Agent>[],
  tools: readonly Tool[] = [],
  options: ChatServiceOptions = {},
): Promise<Console> {
  await using stack = new AsyncDisposableStack();
  const building = buildOnce();
  const { service, url } = stack.use(await startChatService(agents, tools, options));
  await building;
  const { context } = stack.use(await startBrowser(chromium, { viewport: { width: 1280, height: 800 } }));
  const owned = stack.move();
  const client = createClient({ baseUrl: url });
  return { service, url, client, context, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** In a process of its own, whose environment Vite may change. */
async function buildOnce(): Promise<void> {
  await promisify(execFile)(process.execPath, ['src/cli/build-console.ts'], { cwd: ROOT });
}
