(* The OCaml rival of bast-bench: Lwt, native. It is started by the benchmark with the same arguments as the
   other subjects:

     subject basic|recurse|recurse2 MODE-SIZE lwt|lwt-select WARM_MS MEASURE_MS     prints "ns TAB value"

   The loops are those of "Delimited Continuations vs Lwt for Threads" (mirage.io, 2011), written with
   [Lwt.bind] where the syntax extension of that time wrote it. What they compute is checked. *)

open Lwt.Syntax

(* The twin of Meter in src/stats.rs: rounds in chunks that adapt while warming up, then chunks of one size whose
   median counts. *)
let measure ~warm ~span rounds =
  let now = Unix.gettimeofday in
  let timed n =
    let start = now () in
    let* () = rounds n in
    Lwt.return (now () -. start)
  in
  let rec warming since n =
    let* took = timed n in
    if took < 0.0007 then warming since (2 * n)
    else if now () -. since < warm then warming since n
    else measuring (now ()) n []
  and measuring since n samples =
    let* took = timed n in
    let samples = (took *. 1e9 /. float_of_int n) :: samples in
    if now () -. since < span then measuring since n samples else Lwt.return samples
  in
  warming (now ()) 1

let median samples =
  let sorted = Array.of_list samples in
  Array.sort compare sorted;
  let n = Array.length sorted in
  if n land 1 = 1 then sorted.(n / 2) else (sorted.((n / 2) - 1) +. sorted.(n / 2)) /. 2.

(* Each gives the sum of the levels and the number of waits. *)
let basic fn yields =
  let rec loop x =
    if x = yields then Lwt.return x
    else
      let* () = fn () in
      loop (x + 1)
  in
  loop 0

(* One wait, at the bottom. *)
let recurse fn depth =
  let rec sum n =
    match n with
    | 0 ->
        let* () = fn () in
        Lwt.return 1
    | n ->
        let* below = sum (n - 1) in
        Lwt.return (n + below)
  in
  sum depth

(* A wait at every level. *)
let recurse2 fn depth =
  let rec sum n =
    let* () = fn () in
    match n with
    | 0 -> Lwt.return 1
    | n ->
        let* below = sum (n - 1) in
        Lwt.return (n + 1 + below)
  in
  sum depth

let fail message =
  prerr_endline ("ocaml: " ^ message);
  exit 1

let () =
  let bench, param, subject, warm, span =
    match Sys.argv with
    | [| _; "subject"; bench; param; subject; warm; span |] ->
        let ms text = float_of_string text /. 1000. in
        (bench, param, subject, ms warm, ms span)
    | _ -> fail "usage: subject BENCH MODE-SIZE lwt|lwt-select WARM_MS MEASURE_MS"
  in
  (match subject with
  | "lwt" -> ()
  | "lwt-select" -> Lwt_engine.set (new Lwt_engine.select)
  | _ -> fail ("no subject " ^ subject));
  let mode, n =
    match String.split_on_char '-' param with
    | [ mode; size ] -> (mode, int_of_string size)
    | _ -> fail ("not MODE-SIZE: " ^ param)
  in
  let fn =
    match mode with
    | "quick" -> Lwt.return
    | "medium" -> Lwt.pause
    | "slow" -> fun () -> Lwt_unix.sleep 0.0
    | _ -> fail ("no mode " ^ mode)
  in
  let below = n * (n + 1) / 2 in
  let pattern, want =
    match bench with
    | "basic" -> (basic, n)
    | "recurse" -> (recurse, below + 1)
    | "recurse2" -> (recurse2, below + n + 1)
    | _ -> fail ("no benchmark " ^ bench)
  in
  let rec rounds left =
    if left = 0 then Lwt.return_unit
    else
      let* got = pattern fn n in
      if got <> want then fail (Printf.sprintf "%s %s: %d instead of %d" bench param got want);
      rounds (left - 1)
  in
  Printf.printf "ns\t%f\n" (median (Lwt_main.run (measure ~warm ~span rounds)))
