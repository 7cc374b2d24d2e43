import { createBaton } from '@baton-run/server';
import { clerk } from './agent.ts';

// Without DATABASE_URL a PostgreSQL of its own runs in .baton/.
const baton = await createBaton({ databaseUrl: process.env.DATABASE_URL || undefined, agents: [clerk] });
try {
  await baton.startWorker();
  const { id } = await baton.client.sessions.create({ agent: 'clerk' });
  const { text } = await baton.client.ask(id, process.argv[2] ?? 'Where is order-7?');
  console.log(text);
} finally {
  await baton.stop();
}
