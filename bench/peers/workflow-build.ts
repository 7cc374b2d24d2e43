import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { getRequestListener } from '@hono/node-server';
import { z } from 'zod';

const MODULES = fileURLToPath(new URL('../node_modules', import.meta.url));
const SOURCE = fileURLToPath(new URL('workflow-session.ts', import.meta.url));
const ROUTES = '.well-known/workflow/v1';

type Handler = (request: Request) => Promise<Response>;

const manifestSchema = z.object({
  workflows: z.record(z.string(), z.record(z.string(), z.object({ workflowId: z.string() }))),
});

/**
 * Runs `workflow build`, as the documentation of an integration says, on a folder that has only the sessions' source.
 * @returns the folder with the bundles
 */
export async function buildWorkflows(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bench-workflow-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  // The compiler takes every source of the folder that it starts in, and looks for its own package from there.
  await symlink(MODULES, join(folder, 'node_modules'));
  await symlink(SOURCE, join(folder, 'session.ts'));
  await runScript('workflow/bin/run.js', ['build'], { cwd: folder });
  return folder;
}

/** The ids of the workflows, by their names. */
export async function readWorkflowIds(folder: string): Promise<ReadonlyMap<string, string>> {
  const manifest = manifestSchema.parse(JSON.parse(await readFile(join(folder, ROUTES, 'manifest.json'), 'utf8')));
  return new Map(
    Object.values(manifest.workflows).flatMap((named) =>
      Object.entries(named).map(([name, { workflowId }]) => [name, workflowId] as const),
    ),
  );
}

/** Creates the tables of its Postgres world and of graphile-worker, which it queues with. */
export async function createTables(databaseUrl: string): Promise<void> {
  await runScript('@workflow/world-postgres/bin/setup.js', [], {
    env: { ...process.env, WORKFLOW_POSTGRES_URL: databaseUrl },
  });
}

/** Serves the bundles on loopback, where the world delivers its messages. They take the world that is set before. */
export async function serveBundles(folder: string, stack: AsyncDisposableStack): Promise<string> {
  const handlers = new Map<string, Handler>();
  for (const kind of ['flow', 'step']) {
    const { default: bundle } = await import(join(folder, ROUTES, `${kind}.js`));
    handlers.set(`/${ROUTES}/${kind}`, bundle.POST);
  }
  const answer: Handler = async (request) =>
    handlers.get(new URL(request.url).pathname)?.(request) ?? new Response(null, { status: 404 });
  const server = createServer(getRequestListener(answer));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function runScript(
  script: string,
  options: readonly string[],
  { cwd, env }: { cwd?: string; env?: NodeJS.ProcessEnv },
): Promise<void> {
  await promisify(execFile)(process.execPath, [join(MODULES, script), ...options], { cwd, env });
}
