import { afterAll, beforeAll, expect, it } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { VARIABLES } from '../../src/platform/settings.ts';
import { expectConsole } from '../support/console-served.ts';
import { blocksOf, commandOf, type PastedService, readPage, startPasted } from '../support/pasted.ts';

let service: PastedService;

// The blocks are pasted one after another, as by a reader of the page, beside one service that the README starts.
beforeAll(async () => {
  service = await startPasted({ database: 'embedded' });
});
afterAll(() => service[Symbol.asyncDispose]());

/** The block of the README that begins so. */
async function blockOf(beginning: string): Promise<string> {
  const block = (await blocksOf('README.md')).find(({ text }) => text.startsWith(beginning));
  if (block === undefined) throw new Error(`no block begins with ${beginning}`);
  return block.text;
}

it('works when the three commands of the README are pasted: create, send, follow', async () => {
  const block = await blockOf('SESSION=');
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

it('works when the command line and the client of the README are pasted', async () => {
  const commands = await service.run(await blockOf('npm run -s baton'));
  expect(commands).toMatch(/✓ completed after \d+ steps[\s\S]*ses_[0-9a-f]{32} {2}idle/);
  const program = await blockOf('import { createClient');
  const shown = await service.runProgram('README.md', program);
  expect(shown).toMatch(/src\/shipping\.js[\s\S]*false completed\n$/);
  const client = createClient({ baseUrl: service.url });
  const [newest] = (await client.sessions.list({ limit: 1 })).sessions;
  const { messages } = await client.messages(newest?.id ?? '');
  const answers = messages.filter(({ role }) => role === 'assistant');
  const texts = answers.map(({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : '')).join(''));
  expect(texts.filter((text) => text !== '').length).toBeGreaterThan(1);
  expect(shown, 'each step begins on a line of its own').toContain(`${texts.join('\n')}\n`);
});

it('waits before a command, and goes on when what it prints is pasted', async () => {
  const asked = await service.run(await commandOf('README.md', 'npm run -s baton -- submit --follow "Run'));
  expect(asked).toMatch(/bash command: node --test .* waits for an approval/);
  const [answer = ''] = /baton answer run_\w+ call_\w+ approve/.exec(asked) ?? [];
  const told = await service.run(`npm run -s ${answer.replace('baton', 'baton --')} --follow`);
  expect(told).toMatch(/The run goes on\.[\s\S]*not ok 1 - a small order pays for shipping[\s\S]*completed after/);
});

it('switches, copies, deletes and tells of it when the commands of the README are pasted', async () => {
  const told = await service.run(`${await blockOf('TASK=')}echo "$TASK $FORK"`);
  expect(told).toContain('"overrides":{"limits":{"maxSteps":20}}');
  const [task = '', fork = ''] = told.trim().split('\n').at(-1)?.split(' ') ?? [];
  expect(told).toMatch(new RegExp(`"action":"session:delete"[^}]*${fork}`));
  expect(told).toContain('Would remove 0 sessions');
  const { sessions } = (await (await fetch(`${service.url}/v1/sessions`)).json()) as { sessions: { id: string }[] };
  const ids = sessions.map(({ id }) => id);
  expect([ids.includes(task), ids.includes(fork)]).toEqual([true, false]);
});

// The last one: from here on the service asks everyone for a key.
it('asks for a key once the commands under Access are pasted, beside the service that has the database', async () => {
  const stdout = await service.run(await blockOf('KEY='));
  expect(stdout).toMatch(/^{"sessions":\[\],"nextCursor":null}key_[0-9a-f]{32} {2}baton_[\w-]{4}… /);
  expect(stdout).toContain('"code":"unauthenticated"');
});

it('names only settings that exist, and every setting', async () => {
  const readme = await readPage('README.md');
  const named = new Set(
    readme.match(/\b(?:BATON_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL|(?:OPENAI|ANTHROPIC|OTEL)_[A-Z_]*[A-Z])\b/g),
  );
  for (const variable of named) {
    if (variable === 'BATON_CONFIG') continue;
    // A value that no setting takes: the error names the variable if it is known, and calls it unknown otherwise.
    const problem = (() => {
      try {
        loadConfig({ [variable]: '\u0000 ' });
        return '';
      } catch (error) {
        return String(error);
      }
    })();
    expect(problem, variable).not.toContain('unknown settings');
  }
  for (const variable of Object.values(VARIABLES)) expect(named, variable).toContain(variable);
});
