//! The derive macro of windlass. Use it through the library: `windlass::Job`.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements the trait `windlass::Job` for a struct or an enum. The attribute `#[job(…)]` names the kind, the data and the
/// output of the job: see `windlass::Job`.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::job(&input);
    expanded
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
