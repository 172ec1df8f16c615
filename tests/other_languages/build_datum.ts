/** Builds the datum of one sampled answer from its sequence, and prints both as JSON. */
import type { Datum, ProvenanceSpan, SampledSequence, TensorData } from "./schemas.js";

function tensor(data: number[], dtype: TensorData["dtype"]): TensorData {
  return { data, dtype, shape: [data.length] };
}

function datumOf(sequence: SampledSequence, advantage: number): Datum {
  const { sequence_id, prompt_tokens, tokens, logprobs } = sequence;
  const prompt = prompt_tokens.length;
  const whole = [...prompt_tokens, ...tokens];
  const unsampled = new Array<number>(prompt - 1).fill(0);
  const inputSpans: ProvenanceSpan[] = [
    { type: "prompt", sequence_id, offset: 0, length: prompt },
    { type: "sampled", sequence_id, offset: 0, length: tokens.length - 1 },
  ];
  const targetSpans: ProvenanceSpan[] = [
    { type: "prompt", sequence_id, offset: 1, length: prompt - 1 },
    { type: "sampled", sequence_id, offset: 0, length: tokens.length },
  ];
  return {
    model_input: { chunks: [{ type: "encoded_text", tokens: whole.slice(0, -1) }] },
    loss_fn_inputs: {
      target_tokens: tensor(whole.slice(1), "int64"),
      logprobs: tensor([...unsampled, ...logprobs], "float32"),
      advantages: tensor([...unsampled, ...tokens.map(() => advantage)], "float32"),
    },
    model_input_spans: inputSpans,
    loss_fn_input_spans: targetSpans,
  };
}

const sequence: SampledSequence = {
  sequence_id: "answer",
  session_id: "session-1",
  prompt_tokens: [11, 12, 13],
  tokens: [21, 22, 2],
  logprobs: [-0.125, -0.375, -0.625],
  sampled_at: "2026-01-02T10:00:00Z",
  record_stability_info: true,
};
console.log(JSON.stringify({ datum: datumOf(sequence, 1), sequence }));
