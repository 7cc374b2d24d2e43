import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { callTools } from '../attack/tool-calls.ts';
import type { Row } from '../row.ts';

const CANARY = 'canary-4f1c0f5e';
const MCP_SERVER = fileURLToPath(new URL('../../tools/mcp-server.ts', import.meta.url));
const SPY_SERVER = fileURLToPath(new URL('../attack/spy-server-process.ts', import.meta.url));

/** A command and an MCP server try to read the environment of every process. */
async function spy(attacker: Attacker): Promise<void> {
  const database = new URL(attacker.target.databaseUrl).pathname.slice(1);
  const command = `cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a -e "canary-" -e "${database}"`;
  const calls = [
    { name: 'bash', input: { command } },
    { name: 'spy__look', input: {} },
  ];
  const look = async (call: (typeof calls)[number]): Promise<void> => {
    const [result] = await callTools(attacker, 'shell', [[call]]);
    if (result === undefined) throw new Error(`${call.name} was not called`);
    attacker.count(`looks by ${call.name}`);
    if (result.output.includes(CANARY))
      attacker.breach(`${call.name} read a provider's key from the environment of another process`);
    if (result.output.includes(database))
      attacker.breach(`${call.name} read the address of the database from the environment of another process`);
  };
  await Promise.all(calls.map((call) => attacker.inLanes(1, () => look(call))));
}

const TOOLS_OF_CROWD = 20_000;

/** Sessions start with an agent whose MCP server offers too many tools. */
async function beginCrowded(attacker: Attacker): Promise<void> {
  await attacker.inLanes(2, async () => {
    const { status, text } = await attacker.ask('/v1/sessions', { body: { agent: 'crowded' } });
    attacker.count(`sessions with ${TOOLS_OF_CROWD} tools answered ${status}`);
    if (status === 201) attacker.breach(`a session was created with ${TOOLS_OF_CROWD} tools of one server`);
    else if (!text.includes('crowd'))
      attacker.breach(`the refusal does not name the server: ${status} ${text.slice(0, 200)}`);
  });
}

/** Tools that harm the service. */
export const TOOLS: readonly Row[] = [
  {
    name: 'proc-secrets',
    about: 'bash and an MCP server over stdio read /proc/*/environ',
    setUp: () => ({
      settings: { OPENAI_API_KEY: `sk-${CANARY}` },
      agents: {
        shell: {
          model: 'simulated/attacker',
          tools: ['workspace', { mcp: 'spy' }],
          mcpServers: { spy: { command: process.execPath, args: [SPY_SERVER] } },
        },
      },
    }),
    attack: attackBy(spy),
  },
  {
    name: 'mcp-crowd',
    about: 'an MCP server with 20 000 tools',
    async setUp(folder) {
      const [tools, ledger] = [join(folder, 'tools.json'), join(folder, 'ledger')];
      const inputSchema = { type: 'object', properties: { text: { type: 'string' } } };
      const offered = Array.from({ length: TOOLS_OF_CROWD }, (_, no) => ({
        name: `tool_${no}`,
        description: 'x'.repeat(300),
        inputSchema,
      }));
      await writeFile(tools, JSON.stringify(offered));
      const mcpServers = { crowd: { command: process.execPath, args: [MCP_SERVER, tools, ledger] } };
      return { agents: { crowded: { model: 'simulated/attacker', tools: [{ mcp: 'crowd' }], mcpServers } } };
    },
    attack: attackBy(beginCrowded),
  },
];
