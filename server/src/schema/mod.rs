//! Strict JSON Schemas of the forms that programs read and write: `docs/reference/schemas/` and
//! `docs/reference/openapi.json` are made with them.

mod strict;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Returns the schema of a form that programs write. A field that the schema does not name is an error, and an optional
/// field may be `null`.
///
/// # Example
///
/// ```
/// let schema = windlass_server::schema::input::<windlass::statemachine::wire::TaskForm>();
/// assert_eq!(schema["additionalProperties"], false);
/// ```
pub fn input<T: JsonSchema>() -> Value {
    let mut schema = lenient::<T>();
    strict::close(&mut schema);
    schema
}

/// Returns the schema of a form that programs write, and whose reader ignores unknown fields: the requests of workers. An
/// optional field may be `null`.
///
/// # Example
///
/// ```
/// let schema = windlass_server::schema::lenient::<windlass::workers::protocol::Leave>();
/// assert_eq!(schema["additionalProperties"], serde_json::Value::Null);
/// ```
pub fn lenient<T: JsonSchema>() -> Value {
    let mut schema = schema::<T>(SchemaSettings::draft2020_12().for_deserialize());
    strict::allow_null(&mut schema);
    schema
}

/// Returns the schema of a form that programs read. A field that the schema does not name is an error.
///
/// # Example
///
/// ```
/// let schema = windlass_server::schema::output::<windlass_server::TokenForm<'_>>();
/// assert_eq!(schema["properties"]["name"]["type"], "string");
/// ```
pub fn output<T: JsonSchema>() -> Value {
    let mut schema = schema::<T>(SchemaSettings::draft2020_12().for_serialize());
    strict::close(&mut schema);
    schema
}

/// Returns the schema of a form that programs read, and that a later version may extend: the answers to workers. A reader
/// ignores a field that the schema does not name.
///
/// # Example
///
/// ```
/// let schema = windlass_server::schema::open_output::<windlass::workers::protocol::Exchanged>();
/// assert_eq!(schema["additionalProperties"], serde_json::Value::Null);
/// ```
pub fn open_output<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let generator = settings.into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    strict::join(&mut schema);
    strict::describe(&mut schema);
    schema
}
