import { rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openAgentParts } from '../../src/app/open-agents.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { eventually } from '../support/eventually.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const POET = 'name: poet\nmodel: simulated/test\n';

test('a wrong file is logged when it is written, though nobody asks for an agent', async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, 'poet.yaml');
  // As editors do: beside the file, and then in its place.
  const write = async (content: string) => {
    await writeFile(`${file}~`, content);
    await rename(`${file}~`, file);
  };
  await write(POET);
  const logged: LogEvent[] = [];
  // No agent's tool asks it.
  const db = openDatabase({ connectionString: 'postgres://127.0.0.1:9/none' });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => db.destroy());
  const config = loadConfig({ BATON_AGENTS_DIR: folder.path, BATON_SIMULATOR_URL: 'http://127.0.0.1:9' });
  stack.use(await openAgentParts(config, { db, log: (_level, event) => logged.push(event) }, { environment: {} }));
  const told = (event: LogEvent['event']) =>
    eventually(async () => logged.find((line) => line.event === event) ?? null, event);
  await write(`${POET}tols: []\n`);
  expect(await told('agents_rejected')).toEqual({ event: 'agents_rejected', file: 'poet.yaml', keys: ['tols'] });
  await write(`${POET}description: Rhymes.\n`);
  expect(await told('agents_changed')).toEqual({ event: 'agents_changed', agents: 1 });
});
