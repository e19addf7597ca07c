//! The code of `#[derive(Job)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Result, parse_quote};

use crate::attributes::Attributes;

/// Returns the implementation of the trait `Job` for a type.
pub(crate) fn job(input: &DeriveInput) -> Result<TokenStream> {
    if let Data::Union(data) = &input.data {
        let what = "a job is a struct or an enum: the props of a task are JSON";
        return Err(Error::new(data.union_token.span, what));
    }
    if !input.generics.params.is_empty() {
        let what = "a job has no parameters, because each kind is one type; implement `Job` for the types, or wrap each of them \
                    in a struct of its own";
        return Err(Error::new_spanned(&input.generics, what));
    }
    let attributes = Attributes::of(&input.attrs)?;
    let name = &input.ident;
    let Some(kind) = attributes.kind else {
        return Err(Attributes::no_kind(name.span()));
    };
    let library = attributes
        .library
        .unwrap_or_else(|| parse_quote!(::windlass));
    let data = attributes.data.unwrap_or_else(|| parse_quote!(()));
    let output = attributes.output.unwrap_or_else(|| parse_quote!(()));
    let version = attributes
        .data_version
        .map(|version| quote!(const DATA_VERSION: u32 = #version;));
    let migrate = attributes.migrate.map(|migrate| {
        quote! {
            fn migrate(
                from: u32,
                data: #library::Json,
            ) -> ::core::result::Result<Self::Data, #library::BoxError> {
                #migrate(from, data)
            }
        }
    });
    let retry = attributes.retry.map(|retry| {
        quote! {
            fn retry() -> ::core::option::Option<#library::Retry> {
                ::core::option::Option::Some(#retry)
            }
        }
    });
    let limits = attributes.limits.map(|limits| {
        quote! {
            fn limits(
                &self,
            ) -> ::core::result::Result<::std::vec::Vec<#library::Limit>, #library::Invalid> {
                ::core::result::Result::Ok(::std::vec::Vec::from(#limits))
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #library::Job for #name {
            const KIND: &'static str = #kind;
            type Data = #data;
            type Output = #output;
            #version
            #migrate
            #retry
            #limits
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(input: TokenStream) -> Result<String> {
        job(&syn::parse2(input)?).map(|code| code.to_string())
    }

    fn error(input: TokenStream) -> String {
        match expanded(input) {
            Ok(code) => panic!("no error: {code}"),
            Err(error) => error.to_string(),
        }
    }

    fn same(found: TokenStream, wanted: TokenStream) {
        assert_eq!(expanded(found).unwrap(), wanted.to_string());
    }

    #[test]
    fn a_kind_alone_has_neither_data_nor_output() {
        same(
            quote!(
                #[job(kind = "mail")]
                struct Mail {
                    to: String,
                }
            ),
            quote! {
                #[automatically_derived]
                impl ::windlass::Job for Mail {
                    const KIND: &'static str = "mail";
                    type Data = ();
                    type Output = ();
                }
            },
        );
    }

    #[test]
    fn every_attribute_has_its_place() {
        let found = quote! {
            #[derive(Debug)]
            #[job(kind = "poll", data = Vec<(u32, String)>, output = u64)]
            #[job(data_version = 2, migrate = self::older, crate = crate::queue)]
            #[job(retry = Retry::none(), limits = [Limit::at_once(&self.host, 4)?],)]
            enum Poll { One, Two(u32) }
        };
        let wanted = quote! {
            #[automatically_derived]
            impl crate::queue::Job for Poll {
                const KIND: &'static str = "poll";
                type Data = Vec<(u32, String)>;
                type Output = u64;
                const DATA_VERSION: u32 = 2;
                fn migrate(
                    from: u32,
                    data: crate::queue::Json,
                ) -> ::core::result::Result<Self::Data, crate::queue::BoxError> {
                    self::older(from, data)
                }
                fn retry() -> ::core::option::Option<crate::queue::Retry> {
                    ::core::option::Option::Some(Retry::none())
                }
                fn limits(
                    &self,
                ) -> ::core::result::Result<::std::vec::Vec<crate::queue::Limit>, crate::queue::Invalid> {
                    ::core::result::Result::Ok(::std::vec::Vec::from([Limit::at_once(&self.host, 4)?]))
                }
            }
        };
        same(found, wanted);
    }

    #[test]
    fn a_wrong_attribute_is_named_with_what_is_right() {
        let of = |attribute: TokenStream| {
            error(quote!(
                #[job(#attribute)]
                struct A;
            ))
        };
        for (attribute, wanted) in [
            (
                quote!(kind = "a", outputs = u32),
                "a job has no attribute `outputs`; the attributes are kind, data, output, data_version, migrate, retry, limits, crate",
            ),
            (
                quote!(kind = a),
                "`kind` takes a text: kind = \"countdown\"",
            ),
            (quote!(kind), "`kind` takes a text: kind = \"countdown\""),
            (
                quote!(kind = ""),
                "`kind` is empty; give the name under which tasks are stored: kind = \"countdown\"",
            ),
            (
                quote!(kind = "a", kind = "b"),
                "`kind` is given twice; give it once",
            ),
            (
                quote!(kind = "a", data = "u32"),
                "`data` takes a type, without quotes: data = u32",
            ),
            (
                quote!(kind = "a", output),
                "`output` takes a type, without quotes: output = u32",
            ),
            (
                quote!(kind = "a", data_version = "2"),
                "`data_version` takes a number: data_version = 2",
            ),
            (
                quote!(kind = "a", data_version = 0),
                "`data_version` is 0; the first version of the data is 1",
            ),
            (
                quote!(kind = "a", migrate = older),
                "`migrate` converts data of older versions; give a `data_version` of 2 or more with it",
            ),
            (
                quote!(kind = "a", retry = "never"),
                "`retry` takes a policy: retry = Retry::exponential(5, Duration::from_secs(60)), without quotes",
            ),
            (
                quote!(kind = "a", limits = ),
                "`limits` takes an array of limits: limits = [Limit::at_once(\"api\", 4)?]",
            ),
            (
                quote!(data = u32),
                "the job has no kind; give the name under which tasks are stored: #[job(kind = \"countdown\")]",
            ),
            (quote!(kind = "a" data = u32), "expected `,`"),
        ] {
            let text = attribute.to_string();
            assert_eq!(of(attribute), wanted, "{text}");
        }
    }

    #[test]
    fn a_type_that_cannot_be_a_job_says_why() {
        let without = error(quote!(
            struct A;
        ));
        assert!(without.starts_with("the job has no kind"), "{without}");
        let generic = error(quote!(
            #[job(kind = "a")]
            struct A<T>(T);
        ));
        assert!(generic.starts_with("a job has no parameters"), "{generic}");
        let union = error(quote!(#[job(kind = "a")] union A { a: u32 }));
        assert!(union.starts_with("a job is a struct or an enum"), "{union}");
    }
}
