//! What stacks cost, by the kernel's own account. Each test has a process to itself.

use bast_coro::{Guards, PoolConfig, StackPool};

use crate::support::{assert_success, in_child, page_size, slot_of};

/// A field of /proc/self/status, in bytes.
fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(field)).expect("the field");
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn a_stack_costs_a_page_and_its_page_table() {
    let output = in_child("memory::a_stack_costs_a_page_and_its_page_table", || {
        const N: usize = 10_000;
        let mut pool = StackPool::new().unwrap();
        let mut all = Vec::with_capacity(N);
        let (rss, pte) = (status("VmRSS"), status("VmPTE"));
        all.extend((0..N).map(|_| pool.take().unwrap())); // writes the header in the top page
        let rss = (status("VmRSS") - rss) / N;
        let pte = (status("VmPTE") - pte) / N;
        eprintln!("{rss} B resident, {pte} B of page tables each");
        assert!(rss >= page_size() * 9 / 10, "all are touched: {rss}");
        assert!(rss <= page_size() * 11 / 10, "one page each: {rss}");
        assert!(pte <= 700, "{pte}");
        all.into_iter().for_each(|s| pool.give(s));
    });
    assert_success(&output);
}

#[test]
fn after_a_peak_the_memory_comes_back() {
    let output = in_child("memory::after_a_peak_the_memory_comes_back", || {
        for guards in [Guards::Auto, Guards::Mprotect] {
            const N: usize = 20_000;
            let config = PoolConfig::new().guards(guards).hot_limit(256);
            let mut pool = StackPool::with_config(config).unwrap();
            let mut all = Vec::with_capacity(N);
            let (rss, pte) = (status("VmRSS"), status("VmPTE"));
            all.extend((0..N).map(|_| pool.take().unwrap()));
            assert!(status("VmRSS") - rss > N * 4000);
            all.drain(..).for_each(|s| pool.give(s));
            // Without any trim: what is hot stays, some thousand pages.
            let left = status("VmRSS").saturating_sub(rss);
            assert!(left < 3000 * page_size(), "{left}");
            pool.trim(0);
            let left = status("VmRSS").saturating_sub(rss);
            let tables = status("VmPTE").saturating_sub(pte);
            assert!(left < 1 << 20, "{left}");
            assert!(tables < 1 << 20, "whole slabs give their page tables back: {tables}");
        }
    });
    assert_success(&output);
}

/// Stacks that stay hot are swept by the gives themselves.
#[test]
fn deep_pages_of_hot_stacks_come_back() {
    let output = in_child("memory::deep_pages_of_hot_stacks_come_back", || {
        let mut pool = StackPool::new().unwrap();
        let deepen = |pool: &mut StackPool| {
            let all: Vec<_> = (0..100).map(|_| slot_of(pool.take().unwrap())).collect();
            for (stack, low, high) in all {
                let mut at = low.wrapping_add(page_size());
                while at < high.wrapping_sub(page_size()) {
                    // SAFETY: below the top page, in a stack that is ours and runs nothing.
                    unsafe { at.write(1) };
                    at = at.wrapping_add(page_size());
                }
                pool.give(stack);
            }
        };
        let rss = status("VmRSS");
        deepen(&mut pool);
        let peak = status("VmRSS") - rss;
        assert!(peak > 100 * 240 * 1024, "{peak}");
        for _ in 0..100_000 {
            let stack = pool.take().unwrap();
            pool.give(stack);
        }
        let left = status("VmRSS").saturating_sub(rss);
        assert!(left < 100 * 20 * 1024 + (1 << 20), "after many gives: {left} of {peak}");
        assert_eq!(pool.stats().hot, 100);

        deepen(&mut pool);
        assert!(status("VmRSS") - rss > 100 * 240 * 1024);
        pool.trim(100);
        let left = status("VmRSS").saturating_sub(rss);
        assert!(left < 100 * 20 * 1024 + (1 << 20), "after a trim: {left}");
        assert_eq!(pool.stats().hot, 100);
    });
    assert_success(&output);
}

#[test]
fn no_huge_pages() {
    let output = in_child("memory::no_huge_pages", || {
        let mut pool = StackPool::new().unwrap();
        let (stack, low, _) = slot_of(pool.take().unwrap());
        // The mapping that contains the slot carries the flag "nh".
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        let mut flags = None;
        for line in maps.lines() {
            let first = line.split_whitespace().next().unwrap_or("");
            if let Some((from, to)) = first.split_once('-')
                && let (Ok(from), Ok(to)) =
                    (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                inside = (from..to).contains(&(low.addr() + page_size()));
            }
            if inside && let Some(f) = line.strip_prefix("VmFlags:") {
                flags = Some(f.to_owned());
            }
        }
        let flags = flags.expect("the mapping is listed");
        let thp = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert!(!thp || flags.split_whitespace().any(|f| f == "nh"), "{flags}");
        pool.give(stack);
    });
    assert_success(&output);
}
