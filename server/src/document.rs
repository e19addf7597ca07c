//! The OpenAPI document of the requests.

/// Returns the OpenAPI 3.1 document of the requests, which `GET /v1/openapi.json` answers with: docs/reference/openapi.json.
///
/// # Example
///
/// ```
/// let document: serde_json::Value = serde_json::from_str(windlass_server::openapi())?;
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/v1/tasks"]["get"].is_object());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn openapi() -> &'static str {
    include_str!("../openapi.json")
}
