package main

import "encoding/json"

// The types by hand: generators for Go merge the kinds of a union into one struct too, and lose which lists are
// absent and which are empty. `omitzero` keeps the two apart; a null is absent.

type Datum struct {
	ModelInput       ModelInput         `json:"model_input"`
	LossFnInputs     map[string]*Tensor `json:"loss_fn_inputs"`
	ModelInputSpans  []Span             `json:"model_input_spans,omitzero"`
	LossFnInputSpans []Span             `json:"loss_fn_input_spans,omitzero"`
	DatumID          *string            `json:"datum_id,omitempty"`
	GroupID          json.RawMessage    `json:"group_id,omitempty"` // a string or an integer
	Metadata         json.RawMessage    `json:"metadata,omitempty"`
	Provenance       json.RawMessage    `json:"provenance,omitempty"`
}

type ModelInput struct {
	Chunks []Chunk `json:"chunks"`
}

// Chunk: Type tells which of the other fields there are.
type Chunk struct {
	Type           string  `json:"type"`
	Tokens         []int32 `json:"tokens,omitzero"`
	Data           []byte  `json:"data,omitzero"` // base64, as encoding/json has it
	Format         string  `json:"format,omitempty"`
	Location       *string `json:"location,omitempty"`
	ExpectedTokens *int32  `json:"expected_tokens,omitempty"`
	Dmel           []byte  `json:"dmel,omitzero"`
}

// Tensor keeps its numbers as they are written: int64 above 2^53 is exact, and nested lists stay rows.
type Tensor struct {
	Data              []json.RawMessage `json:"data"`
	Dtype             string            `json:"dtype"`
	Shape             []int64           `json:"shape,omitzero"`
	SparseCrowIndices []int64           `json:"sparse_crow_indices,omitzero"`
	SparseColIndices  []int64           `json:"sparse_col_indices,omitzero"`
}

type Span struct {
	Type       string `json:"type"`
	SequenceID string `json:"sequence_id"`
	Offset     *int64 `json:"offset,omitempty"` // absent is 0
	Length     int64  `json:"length"`
}

type SampledSequence struct {
	SequenceID          string          `json:"sequence_id"`
	SessionID           string          `json:"session_id"`
	PromptTokens        []int32         `json:"prompt_tokens"`
	Tokens              []int32         `json:"tokens"`
	Logprobs            []float64       `json:"logprobs"`
	SampledAt           string          `json:"sampled_at"` // time.Time would rewrite the offset
	LastUsedAt          *string         `json:"last_used_at,omitempty"`
	RecordStabilityInfo bool            `json:"record_stability_info"`
	Model               *string         `json:"model,omitempty"`
	PolicyVersion       json.RawMessage `json:"policy_version,omitempty"` // a string or an integer
	StopReason          *string         `json:"stop_reason,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	TopK                *int32          `json:"top_k,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
}
