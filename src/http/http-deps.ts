import type { Hono } from 'hono';
import type { AgentCatalogue } from '../agents/agent.ts';
import type { IncomingHooks } from '../agents/incoming-hooks.ts';
import type { CommandPorts } from '../commands/ports.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { ModelCheck } from '../model/configured-models.ts';
import type { DescribeModel } from '../model/describe-model.ts';
import type { ModelPort } from '../model/model-port.ts';
import type { Readiness } from '../platform/health.ts';
import type { WorkWatch } from '../platform/work-watch.ts';
import type { WorkersByKind } from '../store/lists/fleet.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { OutboundPolicy } from '../tools/http/guarded-request.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';
import type { Authenticate, ConsoleAccess } from './http-env.ts';
import type { Intake } from './intake.ts';
import type { HeldLimits } from './middleware/held-open.ts';
import type { OpenRequests } from './middleware/open-requests.ts';
import type { RequestRate } from './middleware/request-rate.ts';
import type { WrongKeys } from './middleware/wrong-keys.ts';
import type { Outflow } from './outflow.ts';

export type HttpDeps = CommandPorts &
  Readonly<{
    agents: AgentCatalogue;
    models: ModelPort;
    describeModel: DescribeModel;
    modelCheck: ModelCheck;
    toolsOf: ToolCatalogue;
    /** The agent with its MCP tools pinned, as a new session keeps it. @throws BatonError `tools_unavailable` */
    pinTools: McpServers['pin'];
    /** Tools that MCP servers list and agents are not offered. Absent: none. */
    leftOutTools?: McpServers['leftOut'];
    readiness: () => Promise<Readiness>;
    /** Of the work that the process repeats for ever. Absent: it has none. */
    watch?: Pick<WorkWatch, 'whyStuck'>;
    /** Counts the workers of each kind of job; absent if the process does not count them. */
    countWorkers?: () => Promise<WorkersByKind>;
    metrics: Pick<Metrics, 'http' | 'text'>;
    /** The page of the queues. */
    board?: Hono;
    /** Of the page of a trace, with `{traceId}` in it; absent: none. */
    traceUrl?: string;
    /** Days after its last request when the session of an unnamed completion expires; absent or 0: never. */
    completionKeptDays?: number;
    /** How long a call of `/mcp` waits for a run if its client is not told of progress. Absent or 0: to its end. */
    mcpAnswerMs?: number;
    /** Whether the search for sessions finds words of messages. Absent: it does. */
    messageSearch?: boolean;
    /** Counts the requests of tenants; absent: no limit. */
    requestRate?: RequestRate;
    /** Limits of streams and waits that are open at the same time; absent: none. */
    heldLimits?: HeldLimits;
    /** Told of every request. Absent: a stop waits for no request without a client. */
    openRequests?: OpenRequests;
    /** Bounds the bodies that are held at the same time; absent: for a small heap. */
    intake?: Intake;
    /** Bounds the answers that clients have not taken; absent: for a small heap. */
    outflow?: Outflow;
    /** Requests of a tenant at work at the same time. Absent: any number. */
    tenantRequests?: number;
    /** Origins whose pages may use the API; absent: none. */
    corsOrigins?: readonly string[];
    /** Identifies callers before API keys do. */
    authenticate?: Authenticate;
    /** How a program lets people into the console; absent: by API keys. */
    consoleAccess?: ConsoleAccess;
    /** Whether a program of somebody else's mounts the API: tokens that were made without a key are then its own. */
    isMounted?: boolean;
    /** Delays the answers to wrong keys; absent: the app makes its own. */
    wrongKeys?: WrongKeys;
    /** Hooks by which other services send messages; absent: none. */
    hooks?: IncomingHooks;
    /** Addresses that webhooks may have; absent: public ones alone. */
    webhookPolicy?: OutboundPolicy;
    /** The agent of conversations that name none; absent: see `defaultAgentOf`. */
    defaultAgent?: string | undefined;
    /** The folder of the built console; absent: its place in the package. */
    consoleFolder?: string;
  }>;
