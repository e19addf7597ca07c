//! The HTTP server of windlass: the tasks of a namespace for programs in every language.
//!
//! [`Server`] makes an axum [`Router`](axum::Router) that a program of yours can mount, or serves it itself on a Unix
//! socket and on TCP, as `windlass serve` does. Every request is made by a caller who is known: the user at the other end of
//! the socket, or the holder of a [`Token`]. docs/operate/server.md describes the requests,
//! docs/operate/security.md what they are protected against.
//!
//! # Stability
//!
//! Unstable, as the rest of windlass before 1.0. The paths begin with `/v1`, and within it nothing is removed.

mod access;
mod activity;
mod app;
mod auth;
mod body;
pub mod bulk;
mod change;
mod connection;
mod connections;
mod document;
mod guard;
mod in_work;
mod keeping;
mod key;
mod listen;
mod local;
mod mask;
mod node_history;
#[cfg(all(test, feature = "schema"))]
mod openapi;
mod origin;
mod paced;
mod pages;
mod params;
mod patch;
mod peers;
mod places;
mod problem;
mod quota;
mod reference;
mod room;
mod routes;
#[cfg(feature = "schema")]
pub mod schema;
mod sent;
mod server;
mod settings;
mod wait;
mod way;

pub use axum;

pub use auth::{Link, NewToken, Role, Scope, Sessions, Token, TokenForm, Tokens, TrustedHeader};
pub use document::openapi;
pub use listen::{Listen, Serving};
pub use mask::{Mask, MaskForm, Masks, ReadMask};
pub use reference::reference;
pub use server::{Builder, Server};
pub use settings::TlsFiles;

/// Runs the examples of the page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/operate/server.md")]
pub struct ServerPage;
