import type { ProviderFailure } from '../../src/domain/errors.ts';

/** A failed call as a provider, a gateway or the system reports it, with the failure that is made of it. */
export type FailureRow = Readonly<{
  from: string;
  status: number;
  headers?: Readonly<Record<string, string>>;
  body: string | object;
  expected: ProviderFailure;
}>;

const HOST = 'models.example:8443';

/** Rows of refused responses. */
export const REFUSED_ROWS: readonly FailureRow[] = [
  {
    from: 'OpenAI: a code beside the type',
    status: 400,
    headers: { 'x-request-id': 'req_0a1b' },
    body: {
      error: {
        message: "Unsupported parameter: 'max_tokens' is not supported with this model.",
        type: 'invalid_request_error',
        param: 'max_tokens',
        code: 'unsupported_parameter',
      },
    },
    expected: {
      status: 400,
      code: 'unsupported_parameter',
      message: "Unsupported parameter: 'max_tokens' is not supported with this model.",
      requestId: 'req_0a1b',
    },
  },
  {
    from: 'OpenAI: a code that is null',
    status: 403,
    body: { error: { message: 'Your organization must be verified.', type: 'invalid_request_error', code: null } },
    expected: { status: 403, code: 'invalid_request_error', message: 'Your organization must be verified.' },
  },
  {
    from: 'OpenAI: a wrong key, half of which is shown',
    status: 401,
    body: {
      error: {
        message:
          'Incorrect API key provided: sk-proj-ab*****yz12. You can find your API key at https://platform.example/account/api-keys.',
        type: 'invalid_request_error',
        code: 'invalid_api_key',
      },
    },
    expected: {
      status: 401,
      code: 'invalid_api_key',
      message:
        'Incorrect API key provided: [removed] You can find your API key at https://platform.example/account/api-keys.',
    },
  },
  {
    from: 'Azure: its own name for the request',
    status: 400,
    headers: { 'apim-request-id': 'aa-bb-cc' },
    body: { error: { code: 'DeploymentNotFound', message: 'The API deployment does not exist.' } },
    expected: {
      status: 400,
      code: 'DeploymentNotFound',
      message: 'The API deployment does not exist.',
      requestId: 'aa-bb-cc',
    },
  },
  {
    from: 'Anthropic: the request in the body',
    status: 400,
    body: {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'max_tokens: 900000 > 64000, the maximum of this model' },
      request_id: 'req_011C',
    },
    expected: {
      status: 400,
      code: 'invalid_request_error',
      message: 'max_tokens: 900000 > 64000, the maximum of this model',
      requestId: 'req_011C',
    },
  },
  {
    from: 'Anthropic: overloaded',
    status: 529,
    headers: { 'request-id': 'req_011D' },
    body: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    expected: { status: 529, code: 'overloaded_error', message: 'Overloaded', requestId: 'req_011D' },
  },
  {
    from: 'Ollama: a text for an error',
    status: 404,
    body: { error: "model 'llama9' not found" },
    expected: { status: 404, message: "model 'llama9' not found" },
  },
  {
    from: 'Ollama: in OpenAI’s form',
    status: 400,
    body: { error: { message: 'registry.local/llama9 does not support tools', type: 'api_error', code: null } },
    expected: { status: 400, code: 'api_error', message: 'registry.local/llama9 does not support tools' },
  },
  {
    from: 'LM Studio: a text for an error',
    status: 400,
    body: { error: 'No models loaded. Please load a model in the developer page.' },
    expected: { status: 400, message: 'No models loaded. Please load a model in the developer page.' },
  },
  {
    from: 'LM Studio: in OpenAI’s form',
    status: 404,
    body: {
      error: {
        message: 'Model "x" is not loaded',
        type: 'invalid_request_error',
        param: 'model',
        code: 'model_not_found',
      },
    },
    expected: { status: 404, code: 'model_not_found', message: 'Model "x" is not loaded' },
  },
  {
    from: 'vLLM: an error that is the body, its status for a code',
    status: 400,
    body: {
      object: 'error',
      message: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    expected: {
      status: 400,
      code: 'BadRequestError',
      message: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    },
  },
  {
    from: 'vLLM behind FastAPI: a route that does not exist',
    status: 404,
    body: { detail: 'Not Found' },
    expected: { status: 404, message: 'Not Found' },
  },
  {
    from: 'FastAPI: a list of wrong fields',
    status: 422,
    body: { detail: [{ loc: ['body', 'stream'], msg: 'Input should be a valid boolean', type: 'bool_parsing' }] },
    expected: { status: 422, code: 'bool_parsing', message: 'Input should be a valid boolean' },
  },
  {
    from: 'LiteLLM: the provider’s error in its text, and words for nothing',
    status: 400,
    headers: { 'x-litellm-call-id': '7c1f-22' },
    body: {
      error: {
        message:
          "litellm.BadRequestError: OpenAIException - Error code: 400 - {'error': {'message': 'Invalid value for temperature', 'code': None}}",
        type: 'None',
        param: 'None',
        code: '400',
      },
    },
    expected: {
      status: 400,
      message:
        "litellm.BadRequestError: OpenAIException - Error code: 400 - {'error': {'message': 'Invalid value for temperature', 'code': None}}",
      requestId: '7c1f-22',
    },
  },
  {
    from: 'LiteLLM: a key of its own',
    status: 401,
    body: {
      error: {
        message:
          'Authentication Error, Invalid proxy server token passed. Received API Key = sk-...1234, Key Hash (Token) =88dc28d0f030c55ed4ab77ed8faf098196cb1c05',
        type: 'token_not_found_in_db',
        param: 'key',
        code: '401',
      },
    },
    expected: {
      status: 401,
      code: 'token_not_found_in_db',
      message:
        'Authentication Error, Invalid proxy server token passed. Received API Key = [removed], Key Hash (Token) =[removed]',
    },
  },
  {
    from: 'OpenRouter: the provider’s error as a text within',
    status: 400,
    headers: { 'cf-ray': '8f1a-FRA' },
    body: {
      error: {
        message: 'Provider returned error',
        code: 400,
        metadata: {
          raw: '{"error":{"message":"Invalid schema for function","code":"invalid_function_parameters"}}',
          provider_name: 'Azure',
        },
      },
      user_id: 'user_2x',
    },
    expected: {
      status: 400,
      code: 'invalid_function_parameters',
      message: 'Provider returned error: Invalid schema for function',
      requestId: '8f1a-FRA',
    },
  },
  {
    from: 'Google: a status in words',
    status: 400,
    body: [{ error: { code: 400, message: 'Please use a valid role: user, model.', status: 'INVALID_ARGUMENT' } }],
    expected: { status: 400, code: 'INVALID_ARGUMENT', message: 'Please use a valid role: user, model.' },
  },
  {
    from: 'Bedrock: its type in a header',
    status: 400,
    headers: { 'x-amzn-errortype': 'ValidationException', 'x-amzn-requestid': '1-2-3' },
    body: { message: 'The model returned the following errors.' },
    expected: {
      status: 400,
      code: 'ValidationException',
      message: 'The model returned the following errors.',
      requestId: '1-2-3',
    },
  },
  {
    from: 'a proxy: a page',
    status: 502,
    body: '<html>\r\n<head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1><hr>nginx/1.25</body></html>',
    expected: { status: 502, message: '502 Bad Gateway' },
  },
  {
    from: 'a proxy: a page without a title',
    status: 503,
    body: '<!DOCTYPE html><style>p { color: red }</style><body><p>no healthy\n upstream</p></body>',
    expected: { status: 503, message: 'no healthy upstream' },
  },
  {
    from: 'a proxy: plain text',
    status: 504,
    body: 'upstream request timeout',
    expected: { status: 504, message: 'upstream request timeout' },
  },
  { from: 'nothing at all but a status', status: 418, body: '', expected: { status: 418, message: "I'm a Teapot" } },
  {
    from: 'Zhipu: a number for a code',
    status: 400,
    body: { error: { code: '1261', message: 'Prompt is too large' } },
    expected: { status: 400, code: '1261', message: 'Prompt is too large' },
  },
];

/** Rows of connections that could not be opened, or that broke. */
export const CONNECTION_ROWS: readonly (readonly [from: string, cause: Error, expected: ProviderFailure])[] = [
  [
    'nobody listens',
    system('connect ECONNREFUSED 127.0.0.1:11434', 'ECONNREFUSED'),
    { errno: 'ECONNREFUSED', message: 'connect ECONNREFUSED 127.0.0.1:11434' },
  ],
  [
    'nobody listens at any of its addresses',
    Object.assign(
      new AggregateError([
        system('connect ECONNREFUSED ::1:11434', 'ECONNREFUSED'),
        system('connect ECONNREFUSED 127.0.0.1:11434', 'ECONNREFUSED'),
      ]),
      { code: 'ECONNREFUSED' },
    ),
    { errno: 'ECONNREFUSED', message: 'connect ECONNREFUSED ::1:11434: connect ECONNREFUSED 127.0.0.1:11434' },
  ],
  [
    'the name is unknown',
    system('getaddrinfo ENOTFOUND models.example', 'ENOTFOUND'),
    { errno: 'ENOTFOUND', message: 'getaddrinfo ENOTFOUND models.example' },
  ],
  [
    'the certificate is one’s own',
    system('self-signed certificate', 'DEPTH_ZERO_SELF_SIGNED_CERT'),
    { errno: 'DEPTH_ZERO_SELF_SIGNED_CERT', message: 'self-signed certificate' },
  ],
  [
    'it speaks no TLS',
    system(
      '409DA288E87F0000:error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:../deps/x.c:77:\n',
      'ERR_SSL_WRONG_VERSION_NUMBER',
    ),
    { errno: 'ERR_SSL_WRONG_VERSION_NUMBER', message: 'SSL routines: wrong version number' },
  ],
  [
    'it hung up',
    system('other side closed', 'UND_ERR_SOCKET'),
    { errno: 'UND_ERR_SOCKET', message: 'other side closed' },
  ],
];

function system(message: string, code: string): Error {
  return Object.assign(new Error(message), { code });
}

export const ENDPOINT = `https://${HOST}/v1`;
export const ENDPOINT_HOST = HOST;
