import { cp, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { createClient } from '../../src/client/client.ts';
import { runNode } from '../deploy/process.ts';
import { scratchDir } from '../embedded/support.ts';
import { ROOT } from '../support/pasted.ts';

/** An agent file that would give an agent more rights, or make the service run its code. */
const EVIL_AGENT = 'name: gate\nmodel: simulated/any\ntools: [workspace, { module: ./evil.ts }]\n';
const OWN_FILES = ['agents/workspace.yaml', '.baton/cluster/baton-credentials.json', '.baton/cluster/pg_hba.conf'];
/** Files of the package itself: its code and its installed dependencies. */
const PACKAGE_FILES = ['package.json', 'src/cli/baton.ts', 'node_modules/zod/package.json'];
/** The package is this repository. If this edit got through, the answer would show it, but no file would change. */
const EDIT_OF_PACKAGE = { oldText: 'a text that no file of the package has'.repeat(2), newText: 'b' };
const EDIT = { oldText: 'a', newText: 'b', replaceAll: true };
/** The answers to calls that were not let through. */
const KEPT_AWAY = /^".*" is outside the workspace\.|^".*" (?:does not exist|is not a directory)/;

/** All names for a file in the folder where the service was started, wherever the workspace is. */
const namesOf = (folder: string, file: string): string[] => [
  file,
  `../${file}`,
  `./../${file}`,
  path.join(folder, file),
  `/proc/self/cwd/${file}`,
];

it('a start with nothing set keeps every file tool away from agents, data, configuration and code', async () => {
  await using place = await scratchDir();
  await cp(path.join(ROOT, 'agents'), path.join(place.path, 'agents'), { recursive: true });
  await using simulator = await startSimulator();
  const environment = { BATON_PORT: '0', BATON_SIMULATOR_URL: simulator.url, BATON_MODEL: 'simulated/any' };
  await using service = runNode([path.join(ROOT, 'src/cli/baton.ts'), 'dev'], { cwd: place.path, environment });
  const { url } = await service.logged('process_started');

  const ownNames = OWN_FILES.flatMap((file) => namesOf(place.path, file));
  const packageNames = PACKAGE_FILES.flatMap((file) => namesOf(ROOT, file).slice(1));
  const readings = [...ownNames, ...packageNames].flatMap((name) => [
    { name: 'read_file', input: { path: name } },
    { name: 'grep', input: { pattern: '.', path: name } },
    { name: 'list_files', input: { path: path.dirname(name) } },
    { name: 'edit_file', input: { path: name, ...(packageNames.includes(name) ? EDIT_OF_PACKAGE : EDIT) } },
  ]);
  const writings = ['agents/gate.yaml', 'agents/evil.ts', '.env', '.baton/cluster/pg_hba.conf']
    .flatMap((file) => namesOf(place.path, file).slice(1))
    .map((name) => ({ name: 'write_file', input: { path: name, content: EVIL_AGENT } }));
  const listing = { name: 'list_files', input: { recursive: true } };
  simulator.script('*', [{ toolCalls: [listing, ...readings, ...writings] }, { text: 'Done.' }]);
  const client = createClient({ baseUrl: String(url) });
  const { id } = await client.sessions.create({ agent: 'workspace' });
  const { runId } = await client.send(id, 'Go.');
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed' });

  const { messages } = await client.messages(id);
  const calls = messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
  expect(calls).toHaveLength(readings.length + writings.length + 1);
  const letThrough = calls.slice(1).filter(({ output }) => !KEPT_AWAY.test(String(Object(output).value)));
  expect(letThrough.map(({ toolName, input, output }) => [toolName, input, output])).toEqual([]);
  const listed = calls[0]?.output;
  expect(JSON.stringify(listed)).not.toMatch(/agents|\.baton|node_modules/);
  expect(await readdir(path.join(place.path, 'agents'))).toEqual(await readdir(path.join(ROOT, 'agents')));
  expect(await readFile(path.join(place.path, 'agents/workspace.yaml'), 'utf8')).toBe(
    await readFile(path.join(ROOT, 'agents/workspace.yaml'), 'utf8'),
  );
  expect((await service.stop()).code).toBe(0);
});
