module bast-bench-go

go 1.21
