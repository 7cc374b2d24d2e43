/**
 * Where a block of a page is proven. `typed`: the compiler checks it with the packed packages; its text stands before the
 * block. `run`: this test runs it. `left`: why nothing does.
 */
export type Home = Readonly<{ begins: string; typed?: string; run?: string; left?: string }>;

const NEEDS_A_REGISTRY = 'it installs from the registry; test/package/package.test.ts installs the packed files';

const BATON = "declare const baton: import('@baton-run/server').Baton<'clerk'>;\n";
const POOL = "import pg from 'pg';\ndeclare const pool: pg.Pool;\n";

const LIBRARY = 'test/docs/library-page.test.ts';
const GUIDES = 'test/docs/guides.test.ts';
const README = 'test/flow/readme.test.ts';

/** Every fenced block of the pages with which one begins, in its order: a new one needs a row. */
export const HOMES: Readonly<Record<string, readonly Home[]>> = {
  'README.md': [
    { begins: 'npm ci && npm run demo', run: 'test/cli/demo.test.ts' },
    { begins: "import { openai } from '@ai-sdk/openai';", typed: '', run: LIBRARY },
    { begins: 'npm start', run: README },
    { begins: 'curl -s localhost:4400/v1/sessions', run: README },
  ],
  'docs/library.md': [
    { begins: "import { createServer } from 'node:http';", typed: '', run: LIBRARY },
    { begins: "import { simulated } from '@baton-run/server';", typed: '', run: LIBRARY },
    { begins: 'const { id } = await', typed: BATON, run: LIBRARY },
    {
      begins: 'const client = await pool.connect();',
      typed: `${POOL}${BATON}declare const id: string;\n`,
      run: LIBRARY,
    },
    {
      begins: "const sent = await baton.sendIn(client, { agent: 'clerk', key: 'order-7' }",
      typed: `${POOL}${BATON}declare const client: pg.PoolClient;\n`,
      run: LIBRARY,
    },
    { begins: "import { Hono } from 'hono';", typed: BATON, run: LIBRARY },
    { begins: "import express from 'express';", typed: BATON, run: LIBRARY },
    { begins: "import fastify from 'fastify';", run: LIBRARY },
    { begins: 'const answer = (request: Request)', typed: BATON, run: LIBRARY },
    { begins: "import { useChat } from '@ai-sdk/react';", typed: '', run: LIBRARY },
    {
      begins: 'const beside = await createBaton({',
      typed: `${POOL}import { openai } from '@ai-sdk/openai';\nimport { createBaton } from '@baton-run/server';\n`,
      run: LIBRARY,
    },
    { begins: 'const baton = await createBaton({', run: 'test/console/mounted.test.ts' },
    { begins: 'const { key } = await baton.keys.create', typed: BATON, run: LIBRARY },
  ],
  'docs/guides/express.md': [
    { begins: 'npm install express', left: NEEDS_A_REGISTRY },
    { begins: "import { openai } from '@ai-sdk/openai';", run: GUIDES },
    { begins: 'node server.mjs', run: GUIDES },
    { begins: 'curl -s localhost:3000/customers/17/questions', run: GUIDES },
    { begins: 'curl -s localhost:3000/customers/17/questions', run: GUIDES },
    { begins: 'curl -s -X POST localhost:3000/runs/$RUN', run: GUIDES },
  ],
  'docs/guides/nextjs.md': [
    { begins: 'browser ──1.', left: 'it is a picture' },
    { begins: 'KEY=$(npm run -s keys', run: GUIDES },
    { begins: 'npm install @baton-run/client', left: NEEDS_A_REGISTRY },
    { begins: "import { createClient } from '@baton-run/client';", typed: '', run: GUIDES },
    { begins: "'use client';", typed: '', run: GUIDES },
  ],
  'docs/guides/team.md': [
    { begins: 'POSTGRES_PASSWORD=', run: GUIDES },
    { begins: 'docker compose run --rm api', run: GUIDES },
    { begins: 'name: support', run: GUIDES },
    { begins: "import { createHmac, timingSafeEqual } from 'node:crypto';", run: GUIDES },
    { begins: 'services:', run: GUIDES },
    { begins: '. ./.env', run: GUIDES },
    { begins: 'curl -s localhost:4400/v1/schedules', run: GUIDES },
  ],
};
