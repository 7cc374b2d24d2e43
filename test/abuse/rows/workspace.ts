import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { type CallResult, callTools } from '../attack/tool-calls.ts';
import type { Row } from '../row.ts';

const EDITOR = { model: 'simulated/attacker', tools: ['workspace'], limits: { maxSteps: 100 } };
const OUTSIDE = 'a secret outside of the workspace';
const NAMES = 40;
const MIN_TURNS = 10_000;

/** Replaces a workspace folder by a link to a folder outside, for a moment, again and again. */
async function raceLinks(attacker: Attacker): Promise<void> {
  const { workspace, folder } = attacker.target;
  const [inside, outside] = [join(workspace, 'spot'), join(folder, 'outside')];
  for (const [path, content] of [
    [inside, 'inside'],
    [outside, OUTSIDE],
  ] as const) {
    await mkdir(path);
    for (let no = 0; no < NAMES; no++) await writeFile(join(path, `read-${no}`), content);
  }
  const turns = new Int32Array(new SharedArrayBuffer(4));
  const racer = new Worker(new URL('../attack/link-race-thread.ts', import.meta.url), {
    workerData: { inside, outside, turns },
  });
  try {
    let round = 0;
    await attacker.inLanes(1, async () => {
      const at = round++;
      const calls = Array.from({ length: NAMES }, (_, no) =>
        no % 2 === 0
          ? { name: 'read_file', input: { path: `spot/read-${no}` } }
          : { name: 'write_file', input: { path: `spot/written-${at}-${no}`, content: 'written' } },
      );
      const results = await callTools(attacker, 'editor', [calls.slice(0, NAMES / 2), calls.slice(NAMES / 2)]);
      attacker.count('calls through the folder', results.length);
      const reads = results.filter(({ output }) => output.includes(OUTSIDE)).length;
      if (reads > 0) attacker.count('reads outside', reads);
    });
  } finally {
    await racer.terminate();
  }
  const [took = 0] = turns;
  attacker.count('turns of the folder into a link', took);
  if (took < MIN_TURNS) throw new Error(`the folder became a link ${took} times only: that is no race`);
  const written = (await readdir(outside)).filter((name) => !name.startsWith('read-')).length;
  attacker.count('writes outside', written);
  const { done } = attacker.outcome();
  const reads = done['reads outside'] ?? 0;
  if (reads + written > 0) attacker.breach(`${reads} reads and ${written} writes left the workspace through a link`);
}

const EDITS = 300;
const EDITS_PER_RUN = 10;

async function editFiles(attacker: Attacker): Promise<void> {
  let files = 0;
  await attacker.inLanes(1, () => editTogether(attacker, `shared-${files++}.txt`));
}

/** Sessions in two processes edit different lines of one file. */
async function editTogether(attacker: Attacker, path: string): Promise<void> {
  const file = join(attacker.target.workspace, path);
  const line = (no: number, state: string): string => `slot-${no}: ${state};`;
  await writeFile(file, Array.from({ length: EDITS }, (_, no) => line(no, 'todo')).join('\n'));
  const reported: CallResult[] = [];
  await attacker.pieces(4, EDITS / EDITS_PER_RUN, async (run) => {
    const calls = Array.from({ length: EDITS_PER_RUN }, (_, at) => {
      const no = run * EDITS_PER_RUN + at;
      return { name: 'edit_file', input: { path, oldText: line(no, 'todo'), newText: line(no, 'done') } };
    });
    reported.push(...(await callTools(attacker, 'editor', [calls])));
  });
  const done = reported.filter(({ output }) => output.startsWith('Replaced 1 occurrence'));
  attacker.count('edits reported as done', done.length);
  const content = await readFile(file, 'utf8');
  const gone = done.filter(({ input }) => !content.includes(String(input['newText'])));
  attacker.count('of them not in the file', gone.length);
  if (gone.length > 0)
    attacker.breach(`${gone.length} of ${done.length} edits that were reported as done are not in the file`);
}

const SECRETS = /superuserPassword|scram-sha-256/;

/** Every file tool tries to reach Baton's own files by every path from the default workspace. */
async function reachOwnFiles(attacker: Attacker): Promise<void> {
  const { folder } = attacker.target;
  const reads = ['.baton/cluster/baton-credentials.json', '.baton/cluster/pg_hba.conf', 'agents/own.yaml'];
  const writes = ['agents/planted.yaml', 'agents/planted.ts', '.baton/cluster/planted.conf'];
  const ways = (path: string): string[] => [path, `../${path}`, join(folder, path), `./workspace/../../${path}`];
  const planted = JSON.stringify({ name: 'planted', model: 'simulated/attacker', tools: ['workspace'] });
  const rounds = [
    reads.flatMap(ways).map((path) => ({ name: 'read_file', input: { path } })),
    writes.flatMap(ways).map((path) => ({ name: 'write_file', input: { path, content: planted } })),
    ['.baton', 'agents', '..'].map((path) => ({ name: 'list_files', input: { path } })),
    [{ name: 'grep', input: { pattern: 'superuserPassword' } }],
  ];
  const results: CallResult[] = [];
  await Promise.all(
    rounds.map((round) =>
      attacker.inLanes(1, async () => results.push(...(await callTools(attacker, 'own', [round])))),
    ),
  );
  attacker.count('calls', results.length);
  for (const { name, input, output } of results) {
    if (SECRETS.test(output)) attacker.breach(`${name} ${JSON.stringify(input)} showed the database's secrets`);
    if (name === 'read_file' && output.includes('simulated/attacker')) {
      attacker.breach(`${name} ${JSON.stringify(input)} showed an agent's file`);
    }
  }
  for (const path of writes) {
    const content = await readFile(join(folder, path), 'utf8').catch(() => null);
    if (content !== null) attacker.breach(`write_file made ${path}`);
  }
}

/** Agents that reach for files of others. */
export const WORKSPACE: readonly Row[] = [
  {
    name: 'symlink-race',
    isRace: true,
    about: 'file tools while a folder of the workspace becomes a link to outside of it, again and again',
    setUp: () => ({ agents: { editor: EDITOR } }),
    attack: attackBy(raceLinks),
  },
  {
    name: 'shared-file',
    about: '300 edits of one file, again and again, by sessions in two worker processes',
    workers: 2,
    setUp: () => ({ agents: { editor: EDITOR } }),
    attack: attackBy(editFiles),
  },
  {
    name: 'own-files',
    about: 'file tools of an agent where nothing was set ask for the database, the agents and the code',
    isNewcomer: true,
    setUp: () => ({ agents: { own: EDITOR } }),
    attack: attackBy(reachOwnFiles),
  },
];
