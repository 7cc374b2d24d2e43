/** Checks that fail, and why: `SCENARIO/CHECK`, `*` at the end for all that begin so. */
export type NotOffered = Readonly<{ reason: string; checks: readonly string[] }>;

/** Scenarios that are not run, and why: names, `*` at the end for all that begin so. */
export type NotRun = Readonly<{ reason: string; scenarios: readonly string[] }>;

/** Checks that pass at least, by revision: a suite that reaches nothing fails nothing. docs/tools.md has the numbers. */
export const SERVER_PASSES: Readonly<Record<string, number>> = { '2025-11-25': 39, '2026-07-28': 101 };
export const CLIENT_PASSES: Readonly<Record<string, number>> = { '2025-11-25': 15, '2026-07-28': 52 };

const PROMPTS_AND_RESOURCES: NotOffered = {
  reason: 'The server has tools alone: no prompts, resources or completions.',
  checks: ['completion-complete/*', 'prompts-*', 'resources-*'],
};
const TOOLS_OF_THE_SUITE: NotOffered = {
  reason: 'They call a tool of the suite by its name. The tools of the server are its agents.',
  checks: ['json-schema-2020-12/*', 'tools-call-*'],
};

/** What the server at `/mcp` does not pass, by revision. */
export const SERVER_LACKS: Readonly<Record<string, readonly NotOffered[]>> = {
  '2025-11-25': [
    PROMPTS_AND_RESOURCES,
    TOOLS_OF_THE_SUITE,
    { reason: 'The server has no log messages for clients.', checks: ['logging-set-level/*'] },
    {
      reason: 'They need a tool that asks the client. An agent waits for people by other ways.',
      checks: ['elicitation-*'],
    },
  ],
  '2026-07-28': [
    PROMPTS_AND_RESOURCES,
    TOOLS_OF_THE_SUITE,
    {
      reason: 'The lists of prompts and resources are not offered.',
      checks: [
        'caching/sep-2549-prompts-list-caching-hints',
        'caching/sep-2549-resources-list-caching-hints',
        'caching/sep-2549-resources-templates-list-caching-hints',
      ],
    },
    {
      reason: 'They need a tool of the suite that mirrors parameters in headers.',
      checks: ['http-custom-header-server-validation/sep-2243-*'],
    },
    {
      reason: 'They need a tool of the suite that asks the client. An agent waits for people by other ways.',
      checks: [
        'input-required-result-*',
        'server-stateless/sep-2575-server-rejects-undeclared-capability',
        'server-stateless/sep-2575-missing-capability-http-400',
        'server-stateless/sep-2575-http-server-no-independent-requests-on-stream',
        'server-stateless/sep-2575-server-no-log-without-loglevel',
      ],
    },
    {
      reason: 'They need tools of the suite that become tasks: mcp-stateless.test.ts has those of the agents.',
      checks: ['tasks-*'],
    },
  ],
};

/** Scenarios for servers that are not run. */
export const SERVER_NOT_RUN: readonly NotRun[] = [
  { reason: 'The server has no resources, of which skills are made.', scenarios: ['sep-2640-skills-*'] },
];

/** Scenarios for authorization servers that are not run. */
export const AUTHORIZATION_NOT_RUN: readonly NotRun[] = [
  {
    reason: 'Baton is no authorization server: `/mcp` takes the keys of the API.',
    scenarios: ['authorization-server-metadata-endpoint', 'authorization-code-grant'],
  },
];

/** What Baton does not pass as a client. */
export const CLIENT_LACKS: Readonly<Record<string, readonly NotOffered[]>> = {
  '2025-11-25': [
    {
      reason:
        'A server of this revision asks over the open connection, which outlives no worker: it is not offered to.',
      checks: ['elicitation-sep1034-client-defaults/*'],
    },
  ],
  '2026-07-28': [
    {
      reason: 'A run waits for a person here, and the suite has none: test/flow/tool-questions.test.ts answers.',
      checks: ['sep-2322-client-request-state/*'],
    },
  ],
};

/** Scenarios for clients that are not run. */
export const CLIENT_NOT_RUN: readonly NotRun[] = [
  {
    reason: 'Baton has no OAuth as a client: the credentials for a server stand in its headers.',
    scenarios: ['auth/*'],
  },
  { reason: 'Baton reads no resources, of which skills are made.', scenarios: ['sep-2640-client-*'] },
];

/** The scenarios for clients. */
export const CLIENT_SCENARIOS: Readonly<Record<string, readonly string[]>> = {
  '2025-11-25': [
    'initialize',
    'tools_call',
    'sse-retry',
    'elicitation-sep1034-client-defaults',
    'json-schema-2020-12-preservation',
  ],
  '2026-07-28': [
    'tools_call',
    'request-metadata',
    'sep-2322-client-request-state',
    'http-standard-headers',
    'http-custom-headers',
    'http-invalid-tool-headers',
    'json-schema-ref-no-deref',
    'json-schema-2020-12-preservation',
  ],
};
