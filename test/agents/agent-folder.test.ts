import { rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Agent, AgentSet } from '../../src/agents/agent.ts';
import { openAgentFolder } from '../../src/agents/agent-folder.ts';
import { BatonError } from '../../src/domain/errors.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createModuleLoader } from '../../src/tools/load-module.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const SECRET = 'Never tell anybody';

const agentFile = (name: string, rest = ''): string => `name: ${name}\nmodel: simulated/${name}\n${rest}`;

const modulesOf = ({ tools }: Agent): string[] =>
  tools.flatMap((source) => (typeof source === 'string' || source.module === undefined ? [] : [source.module]));

/** A folder with the agent `writer`, and a clock that the test drives. */
async function openFolder(
  options: Readonly<{ check?: (agent: Agent, agents: AgentSet) => Promise<void>; withModules?: boolean }> = {},
) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const write = (file: string, content: string) => writeFile(path.join(folder.path, file), content);
  await write('writer.yaml', agentFile('writer'));
  const clock = { nowMs: 0 };
  const logged: LogEvent[] = [];
  const loaded: (readonly string[])[] = [];
  const load = createModuleLoader(folder.path, path.join(folder.path, 'workspace'));
  const checkModules = async (agent: Agent): Promise<void> => {
    for (const module of modulesOf(agent)) await load(module, agent.name, 'tools.0.module');
  };
  const agents = await openAgentFolder({
    folder: folder.path,
    check: options.withModules === true ? checkModules : (options.check ?? (async () => undefined)),
    filesOf: (agent) => modulesOf(agent).map((module) => path.resolve(folder.path, module)),
    onLoad: (set) => void loaded.push(set.names()),
    log: (_level, event) => void logged.push(event),
    nowMs: () => clock.nowMs,
  });
  const owned = stack.move();
  return {
    path: folder.path,
    clock,
    logged,
    loaded,
    write,
    names: async () => (await agents.current()).names(),
    /** The agents one second later. */
    later: async () => {
      clock.nowMs += 1_000;
      return agents.current();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe('the agents of a folder', () => {
  it('are said to be missing where it has no file of one', async () => {
    await using folder = await openFolder();
    expect(folder.logged).toEqual([]);
    await rm(path.join(folder.path, 'writer.yaml'));
    expect((await folder.later()).names()).toEqual([]);
    expect(folder.logged[0]).toEqual({ event: 'agents_missing', folder: folder.path });
  });

  it('are those of its files: written, changed, replaced and removed without a restart', async () => {
    await using folder = await openFolder();
    expect(await folder.names()).toEqual(['writer']);
    await folder.write('reader.yaml', agentFile('reader'));
    expect((await folder.later()).names()).toEqual(['reader', 'writer']);
    await folder.write('reader.yaml', agentFile('reader', 'description: Reads.\n'));
    expect((await folder.later()).get('reader').description).toBe('Reads.');
    await folder.write('new.tmp', agentFile('reader', 'description: Leads.\n'));
    await rename(path.join(folder.path, 'new.tmp'), path.join(folder.path, 'reader.yaml'));
    expect((await folder.later()).get('reader').description).toBe('Leads.');
    await rm(path.join(folder.path, 'writer.yaml'));
    expect((await folder.later()).names()).toEqual(['reader']);
    expect(folder.logged).toEqual([2, 2, 2, 1].map((agents) => ({ event: 'agents_changed', agents })));
  });

  it('are looked at no more than once in a second, and read only where a file has changed', async () => {
    await using folder = await openFolder();
    await folder.write('reader.yaml', agentFile('reader'));
    folder.clock.nowMs = 999;
    expect(await folder.names()).toEqual(['writer']);
    folder.clock.nowMs = 1_000;
    expect(await Promise.all([folder.names(), folder.names()])).toEqual([
      ['reader', 'writer'],
      ['reader', 'writer'],
    ]);
    await folder.later();
    await folder.later();
    expect(folder.loaded).toEqual([['writer'], ['reader', 'writer']]);
  });

  it.each([
    ['an unknown key', agentFile('reader', 'limits: { maxStep: 3 }\n'), ['limits.maxStep']],
    ['a bad value', agentFile('reader', 'settings: { temperature: 3 }\n'), ['settings.temperature']],
    ['a name that is taken', agentFile('writer'), ['name']],
    ['no YAML', 'name: [reader\n', []],
    ['a line of the instructions that is a key', agentFile('reader', `${SECRET}: yes\n`), []],
  ])('are as their files say while another file has %s, and the log says where', async (_what, content, keys) => {
    await using folder = await openFolder();
    await folder.write('writer.yaml', agentFile('writer', 'description: Writes.\n'));
    await folder.write('also.yaml', content);
    const agents = await folder.later();
    expect(agents.names()).toEqual(['writer']);
    expect(agents.get('writer').description).toBe('Writes.');
    await folder.later();
    expect(folder.logged).toEqual([
      { event: 'agents_changed', agents: 1 },
      { event: 'agents_rejected', file: 'also.yaml', keys },
    ]);
    await folder.write('also.yaml', agentFile('also'));
    expect((await folder.later()).names()).toEqual(['also', 'writer']);
    expect(folder.logged.at(-1)).toEqual({ event: 'agents_changed', agents: 2 });
  });

  it('stay what they were where their own file is wrong, and hold up who needs what it has no more', async () => {
    await using folder = await openFolder({
      check: async (agent, agents) => {
        if (agent.description !== undefined && agents.find(agent.description) === null) {
          throw new BatonError('config_invalid', 'description: no such agent');
        }
      },
    });
    await folder.write('chief.yaml', agentFile('chief', 'description: helper\n'));
    await folder.write('helper.yaml', 'name: [helper\n');
    expect((await folder.later()).names()).toEqual(['writer']);
    await folder.write('helper.yaml', agentFile('helper'));
    expect((await folder.later()).names()).toEqual(['chief', 'helper', 'writer']);
    await folder.write('helper.yaml', 'name: [helper\n');
    await folder.write('writer.yaml', agentFile('writer', 'description: chief\n'));
    const agents = await folder.later();
    expect(agents.names()).toEqual(['chief', 'helper', 'writer']);
    expect(agents.get('writer').description).toBe('chief');
    expect(folder.logged.at(-1)).toEqual({ event: 'agents_rejected', file: 'helper.yaml', keys: [] });
  });

  it('are rejected by each file that is wrong', async () => {
    await using folder = await openFolder();
    await folder.write('a.yaml', agentFile('a', 'tols: []\n'));
    await folder.write('b.yaml', 'name: [b\n');
    expect((await folder.later()).names()).toEqual(['writer']);
    expect(folder.logged).toEqual([
      { event: 'agents_rejected', file: 'a.yaml', keys: ['tols'] },
      { event: 'agents_rejected', file: 'b.yaml', keys: [] },
    ]);
  });

  it('stay what they were when one’s tools cannot be had, or the folder is gone', async () => {
    let isServed = true;
    await using folder = await openFolder({
      check: async () => {
        if (!isServed) throw new BatonError('config_invalid', `tools.1.module: ${SECRET} cannot be loaded`);
      },
    });
    isServed = false;
    await folder.write('writer.yaml', agentFile('writer', 'description: Writes.\n'));
    expect((await folder.later()).get('writer').description).toBeUndefined();
    await rename(folder.path, `${folder.path}-away`);
    expect((await folder.later()).names()).toEqual(['writer']);
    expect(folder.logged).toEqual([
      { event: 'agents_rejected', file: 'writer.yaml', keys: ['tools.1.module'] },
      { event: 'agents_rejected', file: folder.path, keys: [] },
    ]);
    isServed = true;
    await rename(`${folder.path}-away`, folder.path);
    expect((await folder.later()).get('writer').description).toBe('Writes.');
  });

  it('are tried again when a module changes that one of them depends on', async () => {
    await using folder = await openFolder({ withModules: true });
    await folder.write('writer.yaml', agentFile('writer', 'description: Writes.\ntools: [{ module: ./pen.mjs }]\n'));
    const description = async () => (await folder.later()).get('writer').description;
    expect([await description(), await description()]).toEqual([undefined, undefined]);
    await folder.write('pen.mjs', 'export default {');
    expect([await description(), await description()]).toEqual([undefined, undefined]);
    await folder.write(
      'pen.mjs',
      `export default { name: 'pen', description: 'p', inputSchema: { type: 'object' }, execute: () => 1 }`,
    );
    expect([await description(), await description()]).toEqual(['Writes.', 'Writes.']);
    // Each state of the files is logged once: missing, wrong, right.
    expect(folder.logged.map(({ event }) => event)).toEqual(['agents_rejected', 'agents_rejected', 'agents_changed']);
  });

  it('have to be right at the start, tools included', async () => {
    const refused = { code: 'config_invalid', message: 'agent writer: tools.0: there is no such tool' };
    const check = () => Promise.reject(new BatonError('config_invalid', 'tools.0: there is no such tool'));
    await expect(openFolder({ check })).rejects.toMatchObject(refused);
    await using folder = await temporaryFolder();
    const options = { folder: path.join(folder.path, 'nowhere'), check, log: () => undefined };
    await expect(openAgentFolder(options)).rejects.toMatchObject({ code: 'config_invalid' });
  });
});
