// LangGraph.js: a session is a thread, a step is a node that goes on to itself. The checkpointer writes the state after
// every step: the whole list of messages anew.
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import type { ModelMessage } from 'ai';
import { firstMessage, runModelStep } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';

const State = Annotation.Root({
  messages: Annotation<ModelMessage[]>({ reducer: (known, added) => [...known, ...added], default: () => [] }),
  left: Annotation<number>(),
});

await contest('langgraph', async ({ databaseUrl, stack }) => {
  const pool = openPool(stack, databaseUrl, 10);
  const checkpointer = new PostgresSaver(pool);
  await checkpointer.setup();
  const graph = new StateGraph(State)
    .addNode('step', async ({ messages, left }) => ({
      messages: await runModelStep(messages),
      left: left - 1,
    }))
    .addEdge(START, 'step')
    .addConditionalEdges('step', ({ left }) => (left > 0 ? 'step' : END), ['step', END])
    .compile({ checkpointer });
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      await Promise.all(
        sessions.map((thread_id) =>
          graph.invoke(
            { messages: [firstMessage(steps)], left: steps },
            { configurable: { thread_id }, durability: 'sync', recursionLimit: steps + 1 },
          ),
        ),
      );
    },
    async countStored(prefix) {
      const { rows } = await pool.query<{ count: number }>(
        `select count(*)::int as count from checkpoints
          where thread_id like $1 and (metadata->>'step')::int > 0 and metadata->>'source' = 'loop'`,
        [`${prefix}%`],
      );
      return rows[0]?.count ?? 0;
    },
  };
});
