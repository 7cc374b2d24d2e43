import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectConsole } from '../support/console-served.ts';
import { blocksOf, commandOf, type PastedService, startPasted } from '../support/pasted.ts';

let service: PastedService;

// The blocks are pasted one after another, as by a reader of the page, beside one service that the README starts.
beforeAll(async () => {
  service = await startPasted({ database: 'embedded' });
});
afterAll(() => service[Symbol.asyncDispose]());

/** The block of the page that begins so. */
async function blockOf(page: string, beginning: string): Promise<string> {
  const block = (await blocksOf(page)).find(({ text }) => text.startsWith(beginning));
  if (block === undefined) throw new Error(`${page}: no block begins with ${beginning}`);
  return block.text;
}

it('works when the three commands of the README are pasted: create, send, follow', async () => {
  const block = await blockOf('README.md', 'curl -s localhost:4400/v1/sessions ');
  expect(block.match(/curl/g)?.length).toBe(3);
  const stdout = await service.run(`${block.trimEnd()} | sed '/^event: run:completed/q'`);
  expect(stdout).toContain('"queued":false');
  expect(stdout).toMatch(/event: llm:tool-result[\s\S]*src\/shipping\.js/);
  expect(stdout).toContain('event: run:completed');
});

it('serves its console, and says where', async () => {
  await expectConsole(service.url);
  expect(service.said()).toContain(`Console: ${service.url}/console/`);
});

it('works when the command line of docs/messages.md is pasted', async () => {
  const commands = await service.run(await blockOf('docs/messages.md', 'npm run -s baton'));
  expect(commands).toMatch(/✓ completed after \d+ steps[\s\S]*ses_[0-9a-f]{32} {2}idle/);
});

it('waits before a command, and goes on when what it prints is pasted', async () => {
  const asked = await service.run(await commandOf('docs/messages.md', 'npm run -s baton -- submit --follow "Run'));
  expect(asked).toMatch(/bash command: node --test .* waits for an approval/);
  const [answer = ''] = /npm run -s baton -- answer run_\w+ call_\w+ approve/.exec(asked) ?? [];
  const told = await service.run(`${answer} --follow`);
  expect(told).toMatch(/The run goes on\.[\s\S]*not ok 1 - a small order pays for shipping[\s\S]*completed after/);
});

it('switches, copies, deletes and tells of it when the commands of docs/messages.md are pasted', async () => {
  const told = await service.run(`${await blockOf('docs/messages.md', 'curl -s')}echo "$FORK"`);
  expect(told).toContain('"overrides":{"limits":{"maxSteps":20}}');
  const fork = told.trim().split('\n').at(-1) ?? '';
  expect(told).toMatch(new RegExp(`"action":"session:delete"[^}]*${fork}`));
  expect(told).toContain('Would remove 0 sessions');
  const { sessions } = (await (await fetch(`${service.url}/v1/sessions`)).json()) as {
    sessions: { id: string; key: string | null }[];
  };
  expect(sessions.map(({ key }) => key)).toContain('task');
  expect(sessions.map(({ id }) => id)).not.toContain(fork);
});

// The last one: from here on the service asks everyone for a key.
it('asks for a key once the commands of docs/access.md are pasted, beside the service that has the database', async () => {
  const stdout = await service.run(await blockOf('docs/access.md', 'KEY='));
  expect(stdout).toMatch(/^{"sessions":\[\],"nextCursor":null}key_[0-9a-f]{32} {2}baton_[\w-]{4}… /);
  expect(stdout).toContain('"code":"unauthenticated"');
});
