//! HTTP/1.1 as it stands in the RFCs, on the wire: raw bytes to a server and what must come back.
//!
//! ```text
//!   cases.rs, bodies.rs ──▶ script.rs ──▶ hyper on tokio         tells a fault of hyper's ...
//!                                   ├───▶ hyper on bast          ... from one of ours: both must do the same
//!                                   └───▶ axum by `serve`        what users get
//! ```

mod bodies;
mod cases;
mod script;

use std::net::SocketAddr;

use crate::servers::{self, Kind};

#[test]
fn hyper_on_tokio() {
    all(Kind::HyperTokio);
}

#[test]
fn hyper_on_bast() {
    all(Kind::HyperBast);
}

#[test]
fn axum_on_bast() {
    all(Kind::Axum);
}

fn all(kind: Kind) {
    let server = servers::start(kind);
    let cases = || cases::CASES.iter().chain(bodies::CASES);
    let faults: Vec<String> = cases().filter_map(|case| fault(kind, server.addr, case)).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases().count(), faults.join("\n"));
}

fn fault(kind: Kind, addr: SocketAddr, case: &cases::Case) -> Option<String> {
    let script = match (kind, case.hyper) {
        (Kind::HyperTokio | Kind::HyperBast, Some(instead)) => instead,
        _ => case.script,
    };
    let fault = script::play(addr, script).err()?;
    Some(format!("{} ({}): {fault}", case.name, case.cites))
}
