-- Whether a change that an endpoint once wanted is still made. What a tool was refused for may be mended within a day,
-- and thoughts that another key signed leave the views; the form of requests changes with the software of the endpoint.
--
-- Called by readModel (src/store/work/model-limits.ts) and baton_model_memory.
create or replace function baton_is_adapted(p_kind text, p_learned_at timestamptz)
returns boolean language sql stable as $$
  select p_learned_at > clock_timestamp() -
    case
      when p_kind in ('simple_schema', 'omit_tool', 'omit_signed_thoughts', 'without_thinking') then interval '1 day'
      else interval '30 days'
    end
$$;
