import { exec } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ModelMessage, ToolSet } from 'ai';
import { tool } from 'ai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Protocol } from '../../simulator/request.ts';
import { startSimulator } from '../../simulator/server.ts';
import { workspaceScript } from '../../simulator/workspace-script.ts';
import { PROTOCOLS, runStep } from './client.ts';

const run = promisify(exec);

const FILES = {
  'README.md': '# Kettle\n\nA kettle that boils on time.\n',
  'boiler.ts': 'export function boil() {\n  return 100; // TODO check altitude\n}\n',
  'timer.ts': 'import { boil } from "./boiler.ts";\nexport const whistle = () => boil() + boil();\n',
};

async function workspace(files: Record<string, string>) {
  const root = await mkdtemp(join(tmpdir(), 'workspace-script-'));
  for (const [path, text] of Object.entries(files)) await writeFile(join(root, path), text);
  return { root, [Symbol.asyncDispose]: () => rm(root, { recursive: true }) };
}

/** The smallest honest forms of the workspace tools. */
function toolsOn(root: string): ToolSet {
  return {
    list_files: tool({
      inputSchema: z.object({ path: z.string().optional() }),
      execute: async () => {
        const names = (await readdir(root)).toSorted();
        const lines = names.map(async (name) => `${name}\t${(await stat(join(root, name))).size} bytes`);
        return (await Promise.all(lines)).join('\n') || '[empty directory]';
      },
    }),
    read_file: tool({
      inputSchema: z.object({ path: z.string(), limit: z.number().optional() }),
      execute: async ({ path }) => {
        const lines = (await readFile(join(root, path), 'utf8')).split('\n');
        return lines.map((line, index) => `${index + 1}\t${line}`).join('\n');
      },
    }),
    grep: tool({
      inputSchema: z.object({ pattern: z.string() }),
      execute: async ({ pattern }) => {
        const found: string[] = [];
        for (const name of await readdir(root)) {
          const lines = (await readFile(join(root, name), 'utf8')).split('\n');
          for (const [index, line] of lines.entries()) {
            if (new RegExp(pattern).test(line)) found.push(`${name}:${index + 1}: ${line}`);
          }
        }
        return found.join('\n') || 'No matches.';
      },
    }),
    write_file: tool({
      inputSchema: z.object({ path: z.string(), content: z.string() }),
      execute: async ({ path, content }) => {
        await writeFile(join(root, path), content);
        return `Wrote ${path}.`;
      },
    }),
    bash: tool({
      inputSchema: z.object({ command: z.string() }),
      execute: async ({ command }) => `${(await run(command, { cwd: root })).stdout}[exit code 0]`,
    }),
  };
}

type Work = Readonly<{
  tools: ToolSet;
  task: string;
  history?: ModelMessage[];
  /** Sent once this many steps are done. */
  note?: { afterSteps: number; text: string };
  protocol?: Protocol;
}>;

/** Lets the script work on a task until it answers, one real request a step. */
async function work({ tools, task, history = [], note, protocol = 'responses' }: Work) {
  await using simulator = await startSimulator();
  simulator.script('m', workspaceScript);
  const messages: ModelMessage[] = [...history, { role: 'user', content: task }];
  const steps: Awaited<ReturnType<typeof runStep>>[] = [];
  for (let count = 1; count <= 12; count += 1) {
    const step = await runStep(simulator.url, protocol, { messages, tools });
    steps.push(step);
    expect(step.error).toBeUndefined();
    messages.push(...(await step.messages()));
    if (step.calls.length === 0) break;
    if (note?.afterSteps === count) messages.push({ role: 'user', content: note.text });
  }
  expect(simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
  return {
    steps,
    messages,
    answer: steps.at(-1)?.text ?? '',
    called: steps.map((each) => each.calls.map((call) => call.toolName)),
  };
}

describe('the workspace script', () => {
  test.each(PROTOCOLS)(
    'works through its plan with real calls and answers from their results (%s)',
    async (protocol) => {
      await using place = await workspace(FILES);
      const done = await work({
        tools: toolsOn(place.root),
        task: 'Measure where boil is used in this project.',
        protocol,
      });
      expect(done.called).toEqual([['list_files'], ['grep', 'read_file'], ['read_file'], ['bash'], ['write_file'], []]);
      expect(done.steps.every(({ text }) => text.length > 40)).toBe(true);
      expect(done.answer).toContain('“boil” occurs in 4 lines of 3 files');
      expect(done.answer).toContain('timer.ts:1: import { boil } from "./boiler.ts";');
      expect(done.answer).toContain('# Kettle');
      expect(done.answer).toContain('2 timer.ts');
      expect(done.answer).toContain('files: 3');
      expect(await readFile(join(place.root, 'baton-report.md'), 'utf8')).toContain('“boil” occurs in 4 lines');
    },
  );

  test('runs no command for a mere question', async () => {
    await using place = await workspace(FILES);
    const done = await work({ tools: toolsOn(place.root), task: 'Where is boil used in this project?' });
    expect(done.called).toEqual([['list_files'], ['grep', 'read_file'], ['read_file'], ['write_file'], []]);
  });

  test('runs the tests of a project that it is asked to run, and tells what failed', async () => {
    await using place = await workspace({
      'package.json': '{ "type": "module", "scripts": { "test": "node --test" } }',
      'boil.test.js': "import { test } from 'node:test';\ntest('it boils', () => { throw new Error('cold'); });\n",
    });
    const done = await work({ tools: toolsOn(place.root), task: 'Run the tests: does it boil?' });
    expect(done.answer).toMatch(/The command printed:\n[\s\S]*not ok 1 - it boils/);
  });

  test('thinks aloud in its first step', async () => {
    await using place = await workspace(FILES);
    const done = await work({ tools: toolsOn(place.root), task: 'Where is boil used?' });
    expect(done.steps[0]?.reasoning).toContain('Where is boil used?');
  });

  test('takes up a message in the very next reply, looks into it and answers it', async () => {
    await using place = await workspace(FILES);
    const note = { afterSteps: 2, text: 'Please also say something about altitude.' };
    const done = await work({ tools: toolsOn(place.root), task: 'Where is boil used?', note });
    const next = done.steps[2];
    expect(next?.text).toContain('“Please also say something about altitude.”');
    expect(next?.calls).toMatchObject([{ toolName: 'grep', input: { pattern: 'altitude' } }]);
    expect(done.answer).toContain('You also wrote: “Please also say something about altitude.”');
    expect(done.answer).toContain('boiler.ts:2:');
    expect(done.called.flat()).toContain('write_file');
  });

  test('starts anew with a task that follows an answer', async () => {
    await using place = await workspace(FILES);
    const tools = toolsOn(place.root);
    const first = await work({ tools, task: 'Where is boil used?' });
    const second = await work({ tools, task: 'And where is the whistle?', history: first.messages });
    expect(second.called[0]).toEqual(['list_files']);
    expect(second.answer).toContain('“whistle” occurs in');
    expect(second.answer).not.toContain('You also wrote');
  });

  test('searches broadly when the special word is nowhere', async () => {
    await using place = await workspace(FILES);
    const done = await work({ tools: toolsOn(place.root), task: 'Find the flibbertigibbet.' });
    expect(done.answer).toContain('“TODO|FIXME|export” occurs in 3 lines of 2 files');
  });

  test('searches for the other words of the task before that', async () => {
    await using place = await workspace(FILES);
    const done = await work({ tools: toolsOn(place.root), task: 'Wie funktioniert Whistle?' });
    expect(done.answer).toContain('“Whistle|whistle” occurs in 1 line of 1 file, among');
  });

  test('does not take its own report of an earlier task for a finding', async () => {
    await using place = await workspace({ ...FILES, 'baton-report.md': 'boil boil boil' });
    const done = await work({ tools: toolsOn(place.root), task: 'Where is boil used?' });
    expect(done.answer).toContain('“boil” occurs in 4 lines of 3 files');
  });

  test('answers in an empty directory', async () => {
    await using place = await workspace({});
    const done = await work({ tools: toolsOn(place.root), task: 'Where is boil used?' });
    expect(done.answer).toContain('The directory is empty.');
    expect(done.answer).toContain('occurs nowhere');
  });

  test('gets along when every tool fails and says so', async () => {
    const broken = (name: string) =>
      tool({
        inputSchema: z.looseObject({}),
        execute: (): Promise<string> => Promise.reject(new Error(`${name} is broken`)),
      });
    const names = ['list_files', 'read_file', 'grep', 'write_file', 'bash'];
    const tools: ToolSet = Object.fromEntries(names.map((name) => [name, broken(name)]));
    const done = await work({ tools, task: 'Measure where boil is used.' });
    expect(done.answer).toContain('list_files is broken');
    expect(done.answer).toContain('bash is broken');
    expect(done.steps.map(({ text }) => text).join()).not.toContain('is not in any file');
  });

  test('acknowledges a message although it has no tool for it', async () => {
    await using place = await workspace(FILES);
    const { read_file, write_file } = toolsOn(place.root);
    const note = { afterSteps: 1, text: 'Mind the altitude.' };
    const done = await work({
      tools: { ...(read_file && { read_file }), ...(write_file && { write_file }) },
      task: 'Read README.md and boiler.ts',
      note,
    });
    expect(done.steps[1]?.text).toContain('You just added: “Mind the altitude.”');
    expect(done.answer).toContain('You also wrote: “Mind the altitude.”');
  });

  test('answers at once without any tool', async () => {
    const done = await work({ tools: {}, task: 'Where is boil used?' });
    expect(done.called).toEqual([[]]);
    expect(done.answer).toContain('Where is boil used?');
  });
});
