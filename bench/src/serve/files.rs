//! Servers of static files: the example `httpfile` as it is, and tower-http's `ServeDir` under axum.

use super::listening;
use crate::{httpfile, micro, sys};
use bast_examples::httpfile::serve;
use bast_examples::httpfile::site::{Rules, Site};
use bast_examples::options::Options;
use bast_examples::server::{self, Connection, Service};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn run(subject: &str, addr: SocketAddr) -> Result<(), String> {
    match subject {
        "bast-uring" | "bast-epoll" => bast(subject, addr),
        "axum" => axum(addr),
        _ => Err(format!("no server of files {subject} in this build")),
    }
}

fn bast(subject: &str, addr: SocketAddr) -> Result<(), String> {
    let driver = subject.trim_start_matches("bast-").parse();
    let driver = Some(driver.map_err(|_| format!("no driver {subject}"))?);
    let rules = Rules {
        listing: true,
        hidden: false,
        follow_links: false,
        head: Duration::from_secs(15),
        least_rate: 1024,
    };
    let site = Arc::new(Site::new(&httpfile::served()?, rules, None).map_err(|e| e.to_string())?);
    let service = Service {
        name: "httpfile",
        url: |addr| format!("http://{addr}/"),
        unit: "requests",
        handle: move |connection: &Connection| serve(connection, &site),
    };
    let options = Options {
        addr,
        workers: Some(1),
        driver,
        stack: None,
        idle: 60.0,
        per_worker: false,
        max_connections: None,
    };
    match server::run(service, &options) {
        code if code == ExitCode::SUCCESS => Ok(()),
        _ => Err("the server has said why".into()),
    }
}

fn axum(addr: SocketAddr) -> Result<(), String> {
    let root = httpfile::served()?;
    let rt = micro::tokio_runtime("tokio-current", 1)?;
    let serve = async move {
        let listener = tokio::net::TcpListener::bind(addr).await?;
        sys::long_backlog(&listener)?;
        listening(listener.local_addr()?)?;
        let files = tower_http::services::ServeDir::new(root);
        axum::serve(listener, axum::Router::new().fallback_service(files)).await
    };
    rt.block_on(serve).map_err(|e: std::io::Error| e.to_string())
}
