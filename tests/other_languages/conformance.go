// Reads every conformance vector that the schemas take into the types of schemas.go and writes it again; prints
// how many datums and sequences came back as they were, and ends with 1 where one did not.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
)

type vector struct {
	Name string `json:"name"`
	Data struct {
		Datums    []json.RawMessage `json:"datums"`
		Sequences []json.RawMessage `json:"sequences"`
	} `json:"data"`
	SchemaValid *bool `json:"schema_valid"`
}

func main() {
	files, err := filepath.Glob(filepath.Join(os.Args[1], "conformance", "*.json"))
	if err != nil || len(files) == 0 {
		fail("no vectors in %s: %v", os.Args[1], err)
	}
	datums, sequences := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			fail("%v", err)
		}
		var vectors []vector
		if err := json.Unmarshal(text, &vectors); err != nil {
			fail("%s: %v", file, err)
		}
		for _, v := range vectors {
			if v.SchemaValid == nil || !*v.SchemaValid {
				continue
			}
			for _, datum := range v.Data.Datums {
				roundTrip(v.Name, datum, new(Datum))
				datums++
			}
			for _, sequence := range v.Data.Sequences {
				roundTrip(v.Name, sequence, new(SampledSequence))
				sequences++
			}
		}
	}
	fmt.Printf("%d datums, %d sequences\n", datums, sequences)
}

func roundTrip(name string, given []byte, into any) {
	decoder := json.NewDecoder(bytes.NewReader(given))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		fail("%s: %v", name, err)
	}
	written, err := json.Marshal(into)
	if err != nil {
		fail("%s: %v", name, err)
	}
	if !reflect.DeepEqual(plain(given), plain(written)) {
		fail("%s: %s came back as %s", name, given, written)
	}
}

// plain gives a document as maps and lists without nulls, whose numbers are float64 where that is exact: 1.0 is 1.
func plain(text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		fail("%s: %v", text, err)
	}
	return withoutNulls(value)
}

func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if item == nil {
				delete(value, key)
			} else {
				value[key] = withoutNulls(item)
			}
		}
	case []any:
		for i, item := range value {
			value[i] = withoutNulls(item)
		}
	case json.Number:
		if whole, err := value.Int64(); err == nil && (whole > 1<<53 || whole < -(1<<53)) {
			return value
		}
		number, _ := value.Float64()
		return number
	}
	return value
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
