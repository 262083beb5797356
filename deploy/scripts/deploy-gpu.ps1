# Build and start the server on this machine's NVIDIA GPUs in a container, and look whether they are
# seen. Docker Desktop on Windows hands NVIDIA GPUs alone to containers.
#   .\deploy-gpu.ps1 [options of docker compose up]
$ErrorActionPreference = "Stop"
$root = Resolve-Path (Join-Path $PSScriptRoot "..\..")
$file = Join-Path $root "deploy\docker\docker-compose.gpu.yml"

& docker compose -f $file up -d --build --wait @args
if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }
& docker exec anyrig anyrig doctor
$code = $LASTEXITCODE
Write-Output "The key of the server, shown at its first start: docker logs anyrig"
exit $code
